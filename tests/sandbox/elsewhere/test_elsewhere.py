"""Sandboxes of an engine that can mount nothing of this host: a real one, which shifts user ids and sees no state
folder."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import takewhile
from pathlib import Path
from tempfile import gettempdir

import pytest
from lab.schedule import SOAK

from repo.keeping import Allowance
from sandbox import setup as setups
from sandbox.base import Command, Sandbox, SandboxSpec, Setup
from sandbox.contract import CASES, isolation, make_project, patches, staged
from sandbox.contract.setups import (
    BOUNDS,
    a_root_is_kept_as_setup_left_it,
    a_tenant_keeps_so_many_setups,
    setup_files_are_in_every_sandbox_and_in_no_patch,
    setups_end_at_their_bounds,
)
from sandbox.docker import Engine, security_options
from sandbox.driver import DockerDriver
from sandbox.elsewhere.probe import placement_of
from sandbox.errors import EngineUnavailable, SetupFailed
from sandbox.pool import WarmPool

from .conftest import CAN_START, SHIFTED_BY, Far, engine  # pyright: ignore[reportMissingImports]

pytestmark = [
    pytest.mark.docker,
    pytest.mark.skipif(not CAN_START, reason="needs root, and a dockerd to start"),
]
# The others know nothing of how a workspace came about, or where it lies; `make soak` has them, too.
OWN = {*vars(patches), *vars(isolation), "a_read_only_workspace_cannot_be_changed"}
OWN_LIMITS = ("workspace_", "memory_")
TRIED = [name for name in CASES if SOAK or name in OWN or name.startswith(OWN_LIMITS)]
HOST = "127.0.0.2"  # this host's, and none for which a command would leave the proxy aside
NOTHING = Allowance(max_age_s=0, max_bytes=0)

# Everything that a patch can hold, and what is left out of one.
EDITS = r"""
sed -i s/41/42/ src/app.py; git mv src/other.py src/moved.py; rm README.md; chmod +x tests/test_app.py
printf '\000\001' > data.bin; ln -s nowhere link; mkdir -p new/deep; echo x > new/deep/file; echo x > noise.log
printf 'kept\n' > "$(printf 'a\nb')"; echo '*.tmp' > new/.gitignore; echo x > new/left.tmp; touch empty
echo mine > closed; chmod 000 closed; mkdir shut; echo in > shut/file; chmod 000 shut
"""
# What cannot be told from the changed paths alone.
ODD = r"""
mkfifo pipe; mkdir -p nested/.git; echo inside > nested/file; truncate -s 70M large; rm -rf src; echo file > src
rm tests/test_app.py; mkdir tests/test_app.py; echo below > tests/test_app.py/file; echo x > "$(printf 'a\377')"
"""


@pytest.mark.parametrize("name", TRIED)
async def test_an_engine_elsewhere_keeps_the_contract(distant: DockerDriver, image: str, name: str):
    async with staged(distant, image) as stage:
        await CASES[name](stage)


async def test_what_setup_writes_and_git_ignores_is_kept_elsewhere(distant: DockerDriver, image: str, owner: str):
    async with staged(distant, image) as stage:
        made = await setup_files_are_in_every_sandbox_and_in_no_patch(stage, owner)
    assert await distant.engine.discard(made)


async def test_a_setup_elsewhere_has_the_same_bounds(distant: DockerDriver, image: str, owner: str):
    async with staged(distant, image) as stage:
        await setups_end_at_their_bounds(stage, owner)
        made = await a_root_is_kept_as_setup_left_it(stage, owner)
    assert await distant.engine.discard(made)


async def test_setups_of_a_tenant_make_room_for_one_another_elsewhere(
    distant: DockerDriver, image: str, owner: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(setups, "OPENING_S", 0)
    async with staged(distant, image) as stage:
        for made in await a_tenant_keeps_so_many_setups(stage, owner):
            await distant.engine.discard(made)


async def test_what_travelled_for_a_setup_goes_with_it(
    distant: DockerDriver, project: SandboxSpec, owner: str, monkeypatch: pytest.MonkeyPatch
):
    """Its files in the workspace lie on the engine, too, with the checkout."""
    monkeypatch.setattr(setups, "OPENING_S", 0)
    assert project.checkout is not None
    limits = replace(BOUNDS, kept=1)
    setup = Setup(project.image, project.checkout, project.base, owner, (), frozenset(), tenant=owner, limits=limits)

    async def stocked(text: str) -> set[str]:
        """Volumes that a sandbox with the files of this setup needs."""
        image = await distant.prepare_image(replace(setup, commands=(f"echo {text} > made.log",)))
        before = {each.name for each in await distant.setups()}
        async with await distant.open(replace(project, image=image)) as sandbox:
            assert await sandbox.read("/workspace/made.log") == f"{text}\n".encode()
        return {each.name for each in await distant.setups()} - before

    first, second = await stocked("first"), await stocked("second")
    assert len(first) == 1 and len(second) == 1
    kept = {each.name for each in await distant.setups()}
    assert not first & kept and second <= kept


@pytest.mark.parametrize("script", [EDITS, EDITS + ODD], ids=["plain", "odd"])
async def test_a_patch_is_the_same_wherever_the_workspace_is(
    far: Far, owner: str, project: SandboxSpec, script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    async with DockerDriver(tmp_path / "near", owner) as driver:
        near = await _taken(driver, project, script)
    monkeypatch.setenv("DOCKER_HOST", far.address)
    async with DockerDriver(far.folder / owner, owner) as driver:
        assert await _taken(driver, project, script) == near


async def _taken(driver: DockerDriver, project: SandboxSpec, script: str) -> list[object]:
    """Patches after `script`, on a base that is not the checkout's; and what modes it left."""
    async with await driver.open(project) as sandbox:
        given = await _changed(sandbox, "echo '# given' >> src/other.py; echo given > given.txt")
        await sandbox.exec(Command("git checkout -q . && rm given.txt"))
        await sandbox.apply(given, as_base=True)
        result = await sandbox.exec(Command(f"rm given.txt; {script}"))
        assert result.exit_code == 0, result.output
        both = [await sandbox.snapshot(), await sandbox.patch(lambda path: path != "data.bin")]
        assert both[0].files and both[1].refused == ("data.bin",)
        return [*both, (await sandbox.exec(Command("stat -c %a closed shut"))).output]


async def _changed(sandbox: Sandbox, line: str) -> bytes:
    await sandbox.exec(Command(line))
    return (await sandbox.snapshot()).diff


# As shells start programs, but for the time before the child execs, in which its parent is in the kernel.
VFORKS = """
import ctypes, os, time
open("started", "w").close()
if ctypes.PyDLL(None).vfork() == 0:
    time.sleep(2)
    os.execv("/bin/true", ["true"])
"""


async def test_a_parent_that_waits_for_its_childs_exec_stands_still_in_the_end(
    distant: DockerDriver, project: SandboxSpec
):
    async with await distant.open(project) as sandbox:
        forking = asyncio.create_task(sandbox.exec(Command(["python3", "-c", VFORKS])))
        await sandbox.exec(Command("until [ -e started ]; do sleep 0.01; done"))
        assert [change.path for change in (await sandbox.snapshot()).files] == ["started"]
        await forking


async def test_why_a_workspace_is_elsewhere_is_said(
    distant: DockerDriver, far: Far, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    found = {each.part: each.found for each in await distant.report()}
    assert "because the engine shifts user ids" in found["workspaces"]
    assert found["user ids"] == "remapped by the engine"
    shifted = await placement_of(distant.engine, tmp_path)
    assert (shifted.first_uid, shifted.first_gid) == (SHIFTED_BY, SHIFTED_BY)

    hidden, work = far.folder.parent / "other", far.folder.parent / "o"
    hidden.mkdir(), work.mkdir()
    with engine(work, hidden) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        assert await _why(hidden / "state") == "the engine does not see this host's files"
        (work / "sock").chmod(0o666)
        os.seteuid(65534)
        try:
            assert await _why(tmp_path / "state") == "this worker is not root"
        finally:
            os.seteuid(0)
    monkeypatch.delenv("DOCKER_HOST")
    assert await _why(tmp_path / "state") == ""
    assert [*(hidden / "state").iterdir(), *(tmp_path / "state").iterdir()] == []


async def test_a_rootless_engine_is_told_from_others_and_has_to_hold_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It holds none with control groups v1, and with v2 those that were delegated to its user."""
    with tempfile.TemporaryDirectory(prefix="muster-far-") as short:
        work, hidden = Path(short), Path(short) / "hidden"
        hidden.mkdir()
        with engine(work, hidden, rootless=True) as address:
            monkeypatch.setenv("DOCKER_HOST", address)
            async with DockerDriver(tmp_path, "nobody") as driver:
                details = await driver.engine.details()
                assert "rootless" in security_options(details)
                if details["MemoryLimit"]:
                    assert await _why(tmp_path) == "the engine is rootless"
                else:
                    with pytest.raises(EngineUnavailable, match="cannot limit memory and processes and CPU"):
                        await driver.check()
                    with pytest.raises(EngineUnavailable, match="cannot limit"):
                        await driver.open(SandboxSpec("any"))


async def _why(state_dir: Path) -> str:
    asked = Engine()
    try:
        return (await placement_of(asked, state_dir)).why_elsewhere
    finally:
        await asked.close()


async def test_what_setup_installs_comes_through_the_stream_and_is_kept(
    distant: DockerDriver, far: Far, tmp_path: Path
):
    project = await make_project(tmp_path, far.image)
    assert project.checkout is not None

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\nConnection: close\r\n\r\n" + b"x" * 300_000)
        await writer.drain()
        writer.close()

    web = await asyncio.start_server(serve, HOST, 0)
    port = web.sockets[0].getsockname()[1]
    fetch = "import sys, urllib.request as r; sys.stdout.write(r.urlopen(sys.argv[1]).read().decode())"
    commands = (f"python3 -c '{fetch}' http://{HOST}:{port}/ > /opt/venv/got && grep -c answer src/app.py",)
    setup = Setup(far.image, project.checkout, project.base, tmp_path.name, commands, frozenset({f"{HOST}:{port}"}))
    async with web:
        said = bytearray()
        image = await distant.prepare_image(setup, said.extend)
        assert said == b"1\n"
        refused = Setup(
            setup.image, setup.checkout, setup.commit, "other", setup.commands, frozenset({"other.example"})
        )
        with pytest.raises(SetupFailed) as failure:
            await distant.prepare_image(refused)
        assert f"{HOST}:{port}" in failure.value.hint

    async with await distant.open(SandboxSpec(image, project.checkout)) as sandbox:
        assert (await sandbox.exec(Command("stat -c %s /opt/venv/got; env | grep -ci proxy"))).output == b"300000\n0\n"


async def test_a_volume_that_is_half_there_is_brought_again(distant: DockerDriver, far: Far, project: SandboxSpec):
    async with await distant.open(project) as sandbox:
        known = {each.name for each in await distant.setups()}
        mounts = far.docker("inspect", "--format", "{{range .Mounts}}{{.Name}} {{end}}", sandbox.id).split()
    names = sorted(known & set(mounts))
    assert len(names) == 2
    for volume in names:
        user = ["run", "--rm", "--network", "none", "--user", "0", "--volume", f"{volume}:/stock"]
        far.docker(*user, "--entrypoint", "sh", far.image, "-c", "[ ! -e /stock/pack ] || truncate -s 9 /stock/pack")

    async with await distant.open(project) as sandbox:
        assert await sandbox.read("/workspace/src/other.py") == b"x = 1\n"


async def test_what_no_sandbox_uses_any_more_is_collected(distant: DockerDriver, project: SandboxSpec):
    async with await distant.open(project) as sandbox:
        kept = {each.name: each.size_bytes for each in await distant.setups() if each.name.startswith("muster-stock-")}
        await distant.collect(NOTHING, now_s=time.time() + 86400)
        left = {each.name for each in await distant.setups()}
        assert len(left & kept.keys()) == 2
        assert await sandbox.read("/workspace/src/other.py") == b"x = 1\n"
    assert all(size > 0 for size in kept.values())
    assert {each.name for each in await distant.collect(NOTHING, now_s=time.time() + 86400)} >= left & kept.keys()

    async with await distant.open(project) as sandbox:
        assert await sandbox.read("/workspace/src/other.py") == b"x = 1\n"


WORKER = """
import asyncio, sys
from pathlib import Path
from sandbox.base import Command, SandboxSpec
from sandbox.driver import DockerDriver

async def main(state, owner, image):
    driver = DockerDriver(Path(state), owner)
    for read_only in (False, True):
        sandbox = await driver.open(SandboxSpec(image, read_only=read_only))
        print(sandbox.id, flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_what_a_worker_left_that_was_killed_in_a_setup_goes_with_its_name(
    distant: DockerDriver,
    far: Far,
    project: SandboxSpec,
    state_dir: Path,
    owner: str,
    kill_in_setup: Callable[[str, SandboxSpec, Path, str], Awaitable[None]],
):
    await kill_in_setup("docker", project, state_dir, f"{owner}-killed")
    assert await distant.reap(owner=f"{owner}-killed", now_s=time.time()) != []
    assert far.of_owner(f"{owner}-killed") == []
    assert list(state_dir.glob("sandboxes/*")) == []


async def test_what_a_killed_worker_left_goes_with_its_name(
    distant: DockerDriver, far: Far, state_dir: Path, owner: str
):
    arguments = [sys.executable, "-c", WORKER, str(state_dir), f"{owner}-killed", far.image]
    worker = await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE)
    assert worker.stdout is not None
    left = {(await worker.stdout.readline()).decode().strip() for _ in range(2)}
    worker.kill()
    await worker.wait()
    async with await distant.open(SandboxSpec(far.image)) as mine:
        assert left <= {each.sandbox_id for each in await distant.known()}
        assert await distant.reap(now_s=time.time()) == []
        assert set(await distant.reap(owner=f"{owner}-killed", now_s=time.time())) == left
        assert (await mine.exec(Command("echo on"))).output == b"on\n"
    assert far.of_owner(f"{owner}-killed") == []


class Watch:
    hits = 0

    def warm_standing(self, count: int) -> None: ...

    def warm_asked(self, *, hit: bool) -> None:
        self.hits += hit


async def test_one_that_stood_ready_has_the_files_and_gives_the_patch(distant: DockerDriver, project: SandboxSpec):
    watch = Watch()
    pool = WarmPool(distant, 1, watch)
    await pool.warm(project)
    async with await pool.open(project) as sandbox:
        patch = await _changed(sandbox, "echo '# more' >> src/app.py")
    await pool.close()

    assert watch.hits == 1
    assert b"+# more" in patch


async def test_a_worker_that_is_nobody_special_does(far: Far, state_dir: Path, owner: str, project: SandboxSpec):
    state_dir.mkdir()
    subprocess.check_call(["chown", "-R", "nobody:nogroup", state_dir, Path(project.checkout or "").parents[3]])
    above = takewhile(lambda folder: folder != Path(gettempdir()), Path(project.checkout or "").parents)
    for folder in (far.folder, *state_dir.parents[:2], *above):
        folder.chmod(0o755)
    Path(far.address.removeprefix("unix://")).chmod(0o666)
    os.seteuid(65534)
    try:
        async with DockerDriver(state_dir, owner) as driver, await driver.open(project) as sandbox:
            patch = await _changed(sandbox, "echo '# more' >> src/app.py; rm README.md")
    finally:
        os.seteuid(0)

    assert b"+# more" in patch and b"deleted file" in patch
    assert far.of_owner(owner) == []
