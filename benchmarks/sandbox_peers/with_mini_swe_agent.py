"""mini-swe-agent's docker environment: a `docker exec` for each command."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import dataclass

os.environ["MSWEA_SILENT_STARTUP"] = "1"  # its greeting would stand before the figures

from minisweagent.environments.docker import DockerEnvironment


@dataclass(frozen=True)
class Box:
    environment: DockerEnvironment

    async def run(self, line: str) -> None:
        answer = await asyncio.to_thread(self.environment.execute, {"command": line})
        assert answer["returncode"] == 0, answer

    async def close(self) -> None:
        """At once: its own way waits ten seconds for a `sleep` that hears no signal."""
        name, self.environment.container_id = self.environment.container_id, None
        await asyncio.to_thread(subprocess.run, ["docker", "rm", "-f", name], check=True, stdout=subprocess.DEVNULL)


async def opened(image: str) -> Box:
    return Box(await asyncio.to_thread(DockerEnvironment, image=image, run_args=["--rm", "--network", "none"]))
