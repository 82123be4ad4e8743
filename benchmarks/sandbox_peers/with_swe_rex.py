"""SWE-ReX's docker deployment: an HTTP server inside, behind a published port.

Its server belongs into the image, where pip would put it; images here are built without a network, so that the library
of this Python is mounted there. Both must be of one minor version.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import swerex
from swerex.deployment.docker import DockerDeployment
from swerex.runtime.abstract import Command

LIBRARY = Path(swerex.__file__).parent.parent
START = '#!/bin/sh\nexec /usr/bin/python3 -c "from swerex.server import main; main()" "$@"\n'
STARTUP_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Box:
    deployment: DockerDeployment
    folder: tempfile.TemporaryDirectory[str]

    async def run(self, line: str) -> None:
        answer = await self.deployment.runtime.execute(Command(command=["/bin/sh", "-c", line]))
        assert answer.exit_code == 0, answer

    async def close(self) -> None:
        await self.deployment.stop()
        self.folder.cleanup()


async def opened(image: str) -> Box:
    """One after another: while it waits for its server, it blocks the event loop."""
    folder = tempfile.TemporaryDirectory(prefix="muster-bench-")
    Path(folder.name).chmod(0o755)
    program = Path(folder.name) / "swerex-remote"
    program.write_text(START)
    program.chmod(0o755)
    mounts = ["-v", f"{LIBRARY}:/opt/rex:ro", "-v", f"{program}:/usr/local/bin/swerex-remote:ro"]
    deployment = DockerDeployment(
        image=image,
        pull="never",
        startup_timeout=STARTUP_TIMEOUT_S,
        docker_args=[*mounts, "-e", "PYTHONPATH=/opt/rex"],
    )
    await deployment.start()
    return Box(deployment, folder)
