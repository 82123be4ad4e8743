"""What a case of the contract plays on: a driver, an image, and a small project under git."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Generator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from repo.bundle import bundle
from repo.checkout import checkout
from repo.mirror import mirror_of
from repo.temporary import temporary_folder

from ..base import Command, ExecResult, Sandbox, SandboxDriver, SandboxSpec
from ..host_process import run
from ..uids import AGENT_GID, AGENT_UID

PROJECT = {
    "src/app.py": "def answer():\n    return 41\n",
    "src/other.py": "x = 1\n",
    "tests/test_app.py": "from src.app import answer\n\n\ndef test_answer():\n    assert answer() == 41\n",
    ".gitignore": "*.log\n__pycache__/\n.pytest_cache/\n",
    "README.md": "# Project\n",
}
IDENTITY = ("-c", "user.name=contract", "-c", "user.email=contract@localhost")


@dataclass
class Stage:
    """`folder` is the case's own, on this host. All that it opens is closed when the case is over."""

    driver: SandboxDriver
    image: str
    folder: Path
    _undo: AsyncExitStack = field(default_factory=AsyncExitStack)
    _box: Sandbox | None = None
    _project: SandboxSpec | None = None

    async def box(self) -> Sandbox:
        """The case's sandbox: an empty workspace, default limits."""
        if self._box is None:
            self._box = await self.open(SandboxSpec(self.image))
        return self._box

    async def run(self, line: str, **options: Any) -> ExecResult:
        """A command line in `box`; `options` are those of `Command`."""
        return await (await self.box()).exec(Command(line, **options))

    async def open(self, spec: SandboxSpec) -> Sandbox:
        return await self._undo.enter_async_context(await self.driver.open(spec))

    async def project(self) -> SandboxSpec:
        """A small project as a worker would open it: committed, mirrored, checked out."""
        if self._project is None:
            self._project = await make_project(self.folder, self.image)
        return self._project


@asynccontextmanager
async def staged(driver: SandboxDriver, image: str) -> AsyncGenerator[Stage]:
    with temporary_folder("contract") as folder:
        stage = Stage(driver, image, folder)
        async with stage._undo:  # pyright: ignore[reportPrivateUsage]
            yield stage


async def make_project(folder: Path, image: str) -> SandboxSpec:
    root = folder / "project"
    for name, content in PROJECT.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    for words in (("init", "--quiet"), ("add", "--all"), (*IDENTITY, "commit", "--quiet", "-m", "first")):
        await _git(root, *words)
    commit = await _git(root, "rev-parse", "HEAD")
    await bundle(root, commit, folder / "project.bundle")
    mirror = await mirror_of(folder / "cache", bundle=folder / "project.bundle", commit=commit)
    files = await checkout(mirror, commit, folder / "cache", owner=(AGENT_UID, AGENT_GID))
    return SandboxSpec(image, files, mirror.git_dir, commit)


async def _git(root: Path, *words: str) -> str:
    answer = await run(["git", "-C", str(root), *words], timeout_s=60)
    assert answer.exit_code == 0, answer.stderr
    return answer.stdout.decode().strip()


@contextmanager
def raises(kind: type[BaseException], text: str = "") -> Generator[None]:
    """The block raises an error of this kind, whose message holds `text`."""
    try:
        yield
    except kind as error:
        assert text in str(error), f"{error!r} does not say {text!r}"
    else:
        raise AssertionError(f"nothing was raised, {kind.__name__} was due")
