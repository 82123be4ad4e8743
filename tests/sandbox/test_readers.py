"""Readers: what tasks read before they do anything else, in sandboxes that they share."""

from __future__ import annotations

import asyncio
import inspect
import random
import subprocess
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from repo.bundle import bundle
from repo.checkout import checkout
from repo.mirror import mirror_of
from sandbox import readers as module
from sandbox.base import WORKSPACE, Command, Known, Sandbox, SandboxSpec
from sandbox.contract import CASES, make_project, staged
from sandbox.driver import DockerDriver
from sandbox.errors import EngineUnavailable, PathError, SandboxError, SandboxLost
from sandbox.readers import LazySandbox, Readers
from sandbox.uids import AGENT_GID, AGENT_UID

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("private_files")]


class Lazy:
    """A driver whose sandboxes read at readers."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self.readers = Readers(driver)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)

    async def open(self, spec: SandboxSpec) -> Sandbox:
        return await self.readers.open(spec, tenant="tenant")


# The others begin without a checkout, and so without a reader.
ON_A_CHECKOUT = [name for name, case in CASES.items() if "project()" in inspect.getsource(case)]


@pytest.mark.parametrize("name", ON_A_CHECKOUT)
async def test_what_reads_at_readers_keeps_the_contract(driver: DockerDriver, image: str, name: str):
    lazy: Any = Lazy(driver)
    async with staged(lazy, image) as stage:
        await CASES[name](stage)


@pytest.fixture
async def spec(tmp_path: Path, image: str) -> SandboxSpec:
    return replace(await make_project(tmp_path, image), labels={"task": "t"})


@pytest.fixture
async def readers(driver: DockerDriver) -> AsyncIterator[Readers]:
    yield Readers(driver, idle_s=0.0)


async def its_own(driver: DockerDriver) -> list[Known]:
    owner = driver._owner  # pyright: ignore[reportPrivateUsage]
    return [each for each in await driver.known() if each.owner == owner]


async def standing(driver: DockerDriver) -> list[bool]:
    """Of each sandbox: is it a reader?"""
    labels = [each.labels for each in await its_own(driver)]
    return sorted("reader" in each for each in labels if "reader" in each or "task" in each)


LOOKS: dict[str, Any] = {
    "read": lambda box: box.read(f"{WORKSPACE}/src/app.py"),
    "a part": lambda box: box.read(f"{WORKSPACE}/src/app.py", offset_bytes=4, max_bytes=6),
    "read a folder": lambda box: box.read(f"{WORKSPACE}/src"),
    "read nothing": lambda box: box.read(f"{WORKSPACE}/none.py"),
    "read by a relative path": lambda box: box.read("src/app.py"),
    "read out of it": lambda box: box.read(f"{WORKSPACE}/../etc/hostname"),
    "stat": lambda box: box.stat(f"{WORKSPACE}/src/app.py"),
    "stat a folder": lambda box: box.stat(f"{WORKSPACE}/src"),
    "list": lambda box: box.list(WORKSPACE),
    "list some": lambda box: box.list(WORKSPACE, limit=1),
    "list the root": lambda box: box.list("/home"),
    "glob": lambda box: box.glob("*.py"),
    "glob some": lambda box: box.glob("*.py", f"{WORKSPACE}/src", limit=1),
    "glob a file": lambda box: box.glob("*.py", f"{WORKSPACE}/src/app.py"),
    "grep": lambda box: box.grep("answer"),
    "grep a file": lambda box: box.grep("answer", f"{WORKSPACE}/src/app.py"),
    "grep wrongly": lambda box: box.grep("("),
    "resolve": lambda box: box.resolve(f"{WORKSPACE}/src/../README.md"),
    "resolve nothing": lambda box: box.resolve(f"{WORKSPACE}/none/none"),
    "resolve out of it": lambda box: box.resolve("/proc/self/root"),
}


async def outcome(look: Any, box: Sandbox) -> object:
    try:
        return await look(box)
    except SandboxError as error:
        return type(error), str(error)


async def test_what_is_read_before_the_first_command_is_what_is_read_after_it(
    readers: Readers, driver: DockerDriver, spec: SandboxSpec
):
    for look in LOOKS.values():
        async with await readers.open(spec, tenant="t") as box:
            before = await outcome(look, box)
            await box.exec(Command("true"))
            assert await outcome(look, box) == before


async def test_only_what_needs_one_opens_a_sandbox_of_its_own(
    readers: Readers, driver: DockerDriver, spec: SandboxSpec
):
    opened: list[str] = []
    async with await readers.open(spec, tenant="t", own_opened=lambda: opened.append("own")) as box:
        assert isinstance(box, LazySandbox)
        await box.apply(b"", as_base=True)
        await box.read(f"{WORKSPACE}/src/app.py")
        await box.grep("answer")
        assert (await standing(driver), opened, box.own) == ([True], [], None)

        await box.write(f"{WORKSPACE}/src/new.py", b"y = 1\n")

        assert (await standing(driver), opened) == ([False, True], ["own"])
        assert await box.glob("new.py") == ([f"{WORKSPACE}/src/new.py"], False)
        assert [file.path for file in (await box.patch(lambda _: True)).files] == ["src/new.py"]


@pytest.mark.parametrize("path", ["/tmp", "/proc/self/environ", "/home/agent", f"{WORKSPACE}/../tmp"])
async def test_what_is_beside_the_checkout_is_read_in_ones_own(readers: Readers, spec: SandboxSpec, path: str):
    async with await readers.open(spec, tenant="t") as box:
        assert isinstance(box, LazySandbox)
        await box.stat(path)

        assert box.own is not None


async def test_a_link_that_leads_out_is_followed_in_ones_own(
    readers: Readers, driver: DockerDriver, tmp_path: Path, image: str
):
    spec = await linked_project(tmp_path, image)
    for path in ("out", "out/more", "proc"):
        async with await readers.open(spec, tenant="t") as box:
            assert isinstance(box, LazySandbox)
            with pytest.raises(PathError):
                await box.read(f"{WORKSPACE}/{path}")
            assert box.own is not None
    async with await readers.open(spec, tenant="t") as box:
        assert isinstance(box, LazySandbox)
        assert await box.read(f"{WORKSPACE}/inside") == b"x = 1\n"
        assert box.own is None
        await box.exec(Command("echo mine > /tmp/place"))
        assert await box.read(f"{WORKSPACE}/out") == b"mine\n"


async def linked_project(folder: Path, image: str) -> SandboxSpec:
    source = folder / "linked"
    source.mkdir()
    (source / "a.py").write_text("x = 1\n")
    for name, target in {"out": "/tmp/place", "proc": "/proc/self/none", "inside": "a.py"}.items():
        (source / name).symlink_to(target)
    git = ["git", "-C", str(source), "-c", "user.name=a", "-c", "user.email=a@b"]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *words], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    await bundle(source, commit, folder / "bundle")
    mirror = await mirror_of(folder / "cache", bundle=folder / "bundle", commit=commit)
    tree = await checkout(mirror, commit, folder / "cache", owner=(AGENT_UID, AGENT_GID))
    return SandboxSpec(image, checkout=tree, git_dir=mirror.git_dir, base=commit)


async def test_tasks_of_one_tenant_share_a_reader_and_see_nothing_of_each_other(
    readers: Readers, driver: DockerDriver, spec: SandboxSpec
):
    boxes = [await readers.open(spec, tenant="t") for _ in range(5)]
    await asyncio.gather(*(box.read(f"{WORKSPACE}/README.md") for box in boxes))
    assert await standing(driver) == [True]

    await boxes[0].write(f"{WORKSPACE}/README.md", b"changed")
    await boxes[0].exec(Command("echo x > /tmp/x; sleep 1000 & touch src/new.py"))

    for box in boxes[1:]:
        assert await box.read(f"{WORKSPACE}/README.md") == b"# Project\n"
        assert (await box.glob("new.py"))[0] == []
    for box in boxes:
        await box.close()


@pytest.mark.parametrize(
    ("tenant", "other"),
    [("another", {}), ("t", {"env": {"A": "b"}}), ("t", {"base": "HEAD"})],
    ids=["tenant", "environment", "base"],
)
async def test_whoever_differs_has_another_reader(
    readers: Readers, driver: DockerDriver, spec: SandboxSpec, tenant: str, other: dict[str, Any]
):
    async with (
        await readers.open(spec, tenant="t") as one,
        await readers.open(replace(spec, **other), tenant=tenant) as two,
    ):
        await asyncio.gather(one.stat(WORKSPACE), two.stat(WORKSPACE))

        assert await standing(driver) == [True, True]


async def test_a_reader_has_so_many_seats(
    readers: Readers, driver: DockerDriver, spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "MAX_SEATS", 2)
    boxes = [await readers.open(spec, tenant="t") for _ in range(5)]
    await asyncio.gather(*(box.stat(WORKSPACE) for box in boxes))

    assert await standing(driver) == [True] * 3
    for box in boxes:
        await box.close()


async def kill_readers(driver: DockerDriver) -> None:
    for each in await its_own(driver):
        if "reader" in each.labels:
            subprocess.run(["docker", "kill", each.sandbox_id], capture_output=True)


async def test_a_lost_reader_costs_nobody_anything(readers: Readers, driver: DockerDriver, spec: SandboxSpec):
    boxes = [await readers.open(spec, tenant="t") for _ in range(4)]
    await asyncio.gather(*(box.stat(WORKSPACE) for box in boxes))
    await kill_readers(driver)

    found = await asyncio.gather(*(box.read(f"{WORKSPACE}/README.md") for box in boxes))

    assert found == [b"# Project\n"] * 4
    assert all(isinstance(box, LazySandbox) and box.own is None for box in boxes)
    for box in boxes:
        await box.close()


async def test_what_breaks_two_readers_goes_on_alone(readers: Readers, driver: DockerDriver, spec: SandboxSpec):
    async with await readers.open(spec, tenant="t") as box, await readers.open(spec, tenant="t") as other:
        assert isinstance(box, LazySandbox) and isinstance(other, LazySandbox)
        await other.stat(WORKSPACE)

        async def breaking(at: Sandbox) -> bytes:
            await kill_readers(driver)
            return await at.read(f"{WORKSPACE}/README.md")

        assert await box._look(f"{WORKSPACE}/README.md", breaking) == b"# Project\n"  # pyright: ignore[reportPrivateUsage]
        assert box.own is not None
        assert await other.read(f"{WORKSPACE}/README.md") == b"# Project\n"
        assert other.own is None


async def test_a_reader_that_did_not_open_is_tried_again(
    readers: Readers, driver: DockerDriver, spec: SandboxSpec, monkeypatch: pytest.MonkeyPatch
):
    honest = driver.open

    async def refuse(_: SandboxSpec) -> Sandbox:
        raise EngineUnavailable("The engine is away.")

    async with await readers.open(spec, tenant="t") as box:
        monkeypatch.setattr(driver, "open", refuse)
        with pytest.raises(EngineUnavailable):
            await box.read(f"{WORKSPACE}/README.md")
        monkeypatch.setattr(driver, "open", honest)

        assert await box.read(f"{WORKSPACE}/README.md") == b"# Project\n"


async def test_an_idle_reader_that_is_wanted_again_stays(driver: DockerDriver, spec: SandboxSpec):
    readers = Readers(driver, idle_s=600)
    async with await readers.open(spec, tenant="t") as box:
        await box.stat(WORKSPACE)
    [reader] = readers._readers  # pyright: ignore[reportPrivateUsage]
    assert reader.closing is not None

    async with await readers.open(spec, tenant="t") as box:
        await box.stat(WORKSPACE)

        assert reader.closing is None
        assert await standing(driver) == [True]


async def test_an_idle_reader_goes(readers: Readers, driver: DockerDriver, spec: SandboxSpec):
    async with await readers.open(spec, tenant="t") as box:
        await box.stat(WORKSPACE)
    while readers._readers:  # pyright: ignore[reportPrivateUsage]
        await asyncio.sleep(0)
    await asyncio.gather(*readers._background)  # pyright: ignore[reportPrivateUsage]

    assert await standing(driver) == []


async def test_who_is_closed_while_it_opens_leaves_nothing(readers: Readers, spec: SandboxSpec):
    """What would be left is found where the driver's fixture ends."""
    box = await readers.open(spec, tenant="t")
    opening = asyncio.create_task(box.exec(Command("sleep 1000")))
    looking = asyncio.create_task(box.stat(WORKSPACE))
    await asyncio.sleep(0)
    await box.close()

    with pytest.raises(SandboxLost, match="was closed"):
        await looking
    with pytest.raises(SandboxError):
        await opening


COSTLY = r"(?-u:a[ab]{500}[^ab]|b[ab]{499}\d)"  # no backtracking, and seconds for each megabyte


async def test_one_tenants_long_searches_hold_up_nobody_else(
    readers: Readers, spec: SandboxSpec, image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "SEARCH_TIMEOUT_S", 1.0)
    (tmp_path / "hostile" / "project").mkdir(parents=True)
    chance = random.Random(1)
    lines = b"\n".join(bytes(chance.choices(b"ab", k=2000)) for _ in range(3_000))
    (tmp_path / "hostile" / "project" / "big").write_bytes(lines)
    hostile = await make_project(tmp_path / "hostile", image)
    goes_on_alone = asyncio.Event()
    async with (
        await readers.open(hostile, tenant="hostile", own_opened=goes_on_alone.set) as first,
        await readers.open(hostile, tenant="hostile") as second,
        await readers.open(spec, tenant="t") as other,
    ):
        await other.grep("answer")
        searches = [asyncio.create_task(each.grep(COSTLY)) for each in (first, second) for _ in range(20)]
        await asyncio.sleep(0)
        async with asyncio.timeout(20):  # the forty take minutes
            assert (await other.grep("answer"))[0]
        assert isinstance(other, LazySandbox) and other.own is None
        await asyncio.wait_for(goes_on_alone.wait(), 60)
        for each in searches:
            each.cancel()
        await asyncio.gather(*searches, return_exceptions=True)
