"""What docs/redis.md tells people to type at night, typed as the reader."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.redis

PAGE = Path(__file__).parent.parent.parent.parent / "docs" / "redis.md"
COMMANDS = re.findall(r"<!-- tests: watching -->\n```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)


def typed(server: Any, folder: Path) -> str:
    """What the commands print, on the server of the tests."""
    beside = Path(sys.executable).parent
    cli = shutil.which("redis-cli") or str(beside / "redis-cli")
    (folder / "reader.password").write_text(server.passwords["reader"] + "\n")
    text = "\n".join(COMMANDS).replace("-p 6379", f"-p {server.port}").replace("redis-cli", cli)
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_every_line_answers(acl_server, as_role, tmp_path):
    people, worker = await as_role("orchestrator"), await as_role("worker")
    started, root = await people.submit(), await people.submit()
    await worker.claim_one()

    text = typed(acl_server, tmp_path)

    lines = text.splitlines()
    assert len(COMMANDS) == 2
    assert not re.search(r"NOPERM|NOAUTH|\bERR\b|WRONGPASS", text)
    assert lines[0] == "PONG"
    assert any(line.startswith("maxmemory_policy:noeviction") for line in lines)
    at = lines.index("explore")  # the pools; then ready, running, workers
    assert lines[at + 1 : at + 4] == ["1", "1", "0"]
    assert {started.task_id, root.task_id} <= set(lines)
    assert lines[-2:] == ["0", "0"]  # nothing is overdue
