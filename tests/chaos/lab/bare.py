"""Commands of a gate as plain processes of this host: for tests whose code is our own, where a sandbox would cost more
than what it runs. It does what the sandbox's contract says as far as a recipe asks for it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import distribution
from pathlib import Path

from sandbox.base import WORKSPACE, Command, ExecResult, FileStat
from sandbox.errors import PathError

PACKAGES = ("pytest", "pluggy", "iniconfig", "packaging", "pygments")


def bare_python(folder: Path) -> Path:
    """The `bin` of a Python with pytest and no plugins: those of this environment take a second to load."""
    venv.create(folder, with_pip=False, symlinks=True)
    home = next(folder.glob("lib/python*/site-packages"))
    for name in PACKAGES:
        for file in distribution(name).files or ():
            top = Path(str(file)).parts[0]
            source = Path(str(distribution(name).locate_file(top)))
            if top not in ("..", "__pycache__") and not (home / top).exists():
                (home / top).symlink_to(source)
    return folder / "bin"


@dataclass
class BareService:
    process: asyncio.subprocess.Process

    async def send(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        await self.process.stdin.drain()

    async def receive(self) -> bytes:
        assert self.process.stdout is not None
        return await self.process.stdout.read(65536)

    async def stop(self) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()


@dataclass
class BareSandbox:
    """`folder` stands for the workspace."""

    folder: Path
    python: Path
    laid: set[Path] = field(default_factory=set[Path])
    groups: list[int] = field(default_factory=list[int])

    def _path(self, path: str) -> Path:
        return self.folder / path.removeprefix(WORKSPACE).lstrip("/") if path.startswith(WORKSPACE) else Path(path)

    def _env(self, env: Mapping[str, str]) -> dict[str, str]:
        given = {**env, "PATH": f"{self.python}:{os.environ['PATH']}", "HOME": str(self.folder), "LANG": "C.UTF-8"}
        for name in ("PYTHONPYCACHEPREFIX",):
            if name in given:
                self.laid.add(Path(given[name]))
        return given

    async def exec(self, command: Command, on_output: object = None) -> ExecResult:
        words = ["sh", "-c", command.command] if isinstance(command.command, str) else list(command.command)
        began_s = time.monotonic()
        process = await asyncio.create_subprocess_exec(
            *words, cwd=self._path(command.cwd), env=self._env(command.env), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        )  # fmt: skip
        self.groups.append(process.pid)
        timed_out = False
        try:
            output, _ = await asyncio.wait_for(process.communicate(), command.timeout_s)
        except TimeoutError:
            timed_out, output = True, b""
            os.killpg(process.pid, signal.SIGKILL)
        code = await process.wait()
        code = code if code >= 0 else 128 - code
        return ExecResult(code, output, 0, timed_out, time.monotonic() - began_s)

    async def kill_all(self) -> None:
        """Of commands; who leaves its group goes on here."""
        for group in self.groups:
            with suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self.groups.clear()

    async def start(
        self, command: Sequence[str], *, cwd: str = WORKSPACE, env: Mapping[str, str] | None = None
    ) -> BareService:
        process = await asyncio.create_subprocess_exec(
            *command, cwd=self._path(cwd), env=self._env(env or {}), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return BareService(process)

    async def read(self, path: str, *, offset_bytes: int = 0, max_bytes: int = 10 << 20) -> bytes:
        try:
            content = self._path(path).read_bytes()
        except OSError as e:
            raise PathError(f"{path}: {e}") from e
        return content[offset_bytes : offset_bytes + max_bytes]

    async def write(self, path: str, content: bytes, *, mode: int | None = None) -> None:
        target = self._path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        if not path.startswith(WORKSPACE):
            self.laid.add(Path(*target.parts[:3]))

    async def stat(self, path: str) -> FileStat:
        try:
            found = self._path(path).stat()
        except OSError as e:
            raise PathError(f"{path}: {e}") from e
        return FileStat(path, "directory" if self._path(path).is_dir() else "file", found.st_size, 0, found.st_mtime)

    async def list(self, path: str, *, limit: int = 1000) -> list[FileStat]:
        try:
            names = sorted(os.listdir(self._path(path)))
            if path.startswith("/tmp/muster-"):
                self.laid.add(Path(path))
        except OSError as e:
            raise PathError(f"{path}: {e}") from e
        return [FileStat(f"{path}/{name}", "file", 0, 0, 0.0) for name in names[:limit]]

    def close(self) -> None:
        for path in self.laid:
            shutil.rmtree(path, ignore_errors=True)
            if path.is_file():
                path.unlink()


__all__ = ["BareSandbox", "BareService", "bare_python"]
assert sys.platform == "linux"
