"""One tenant's mirrors, checkouts and bundles keep no other tenant from work."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from repo.bundle import bundle
from repo.cache import Use, collect_repositories, kept_repositories, lock_of, room_for
from repo.checkout import checkout
from repo.errors import DiskFull
from repo.keeping import Allowance
from repo.lock import file_lock
from repo.mirror import mirror_of
from repo.patch import apply_to_tree
from repo.weight import Weight

MIB = 1024 * 1024
DISK_BYTES = 24 * MIB
NOTHING_KEPT = Allowance(max_age_s=0, max_bytes=0)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounts a small disk, which takes root")
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(place)], check=True)
    yield place
    subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.fixture(autouse=True)
def nobody_has_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a disk as small as these, all that is small elsewhere would be."""
    monkeypatch.setattr("repo.disk.SMALL_BYTES", 0)


@pytest.fixture
def commits(user: Any, mirror_at: Any):
    """So many, each of which takes 4 MiB with its pack, and their mirror elsewhere."""

    async def make(count: int) -> list[tuple[Any, str]]:
        made = [user.commit({"big": os.urandom(2 * MIB)}) for _ in range(count)]
        mirror = await mirror_at(user, made[-1])
        return [(mirror, each) for each in made]

    return make


async def checked_out(one: tuple[Any, str], cache: Path, use: Use | None = None) -> Path:
    return await checkout(*one, cache, use=use)


async def names(cache: Path) -> set[str]:
    return {Path(each.name).name for each in await kept_repositories(cache)}


async def test_what_nobody_works_on_goes_at_once(commits: Any, disk: Path):
    for mirror, commit in await commits(8):
        with Use("ann") as use:
            assert (await checked_out((mirror, commit), disk, use=use) / "big").exists()


async def test_who_has_most_gives_way_and_nobody_else(commits: Any, disk: Path):
    *anns, bens, cleos = await commits(6)
    with Use("ben") as ben:
        await checked_out(bens, disk, use=ben)  # used the longest ago
    for each in anns:
        with Use("ann") as ann:
            await checked_out(each, disk, use=ann)
    with Use("cleo") as cleo:
        await checked_out(cleos, disk, use=cleo)

    assert await names(disk) == {commit for _, commit in (bens, *anns[1:], cleos)}


async def test_what_somebody_works_on_stays_until_he_has_ended(commits: Any, disk: Path):
    made = await commits(6)
    uses = [Use(f"tenant {n}") for n in range(len(made))]
    for use, each in zip(uses[:5], made[:5], strict=True):
        folder = await checked_out(each, disk, use=use)
        assert (folder / "big").exists()

    with pytest.raises(DiskFull, match="no space left"):
        await checked_out(made[5], disk, use=uses[5])
    assert await collect_repositories(disk, NOTHING_KEPT, now_s=time.time() + 1) == []
    uses[2].close()
    await checked_out(made[5], disk, use=uses[5])
    assert await names(disk) == {commit for _, commit in made} - {made[2][1]}
    for use in uses:
        use.close()


async def test_one_tenant_cannot_hold_all(commits: Any, disk: Path):
    """Whose tasks are at work on a disk for themselves leave something for the next to come."""
    *anns, bens = await commits(6)
    with Use("ann") as ann, Use("ben") as ben:
        with pytest.raises(DiskFull, match="for one tenant") as full:
            for each in anns:
                await checked_out(each, disk, use=ann)
        assert "its tasks" in full.value.hint
        await checked_out(bens, disk, use=ben)
        assert len(await names(disk)) == 5


async def test_very_many_small_things_keep_nobody_waiting(
    user: Any, mirror_at: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Each of them has a note, and all notes are read for something new."""
    monkeypatch.setattr("repo.cache.MAX_THINGS", 10)
    many = [user.commit({"a": f"{n}\n"}) for n in range(13)]
    mirror, cache = await mirror_at(user, many[-1]), tmp_path / "small"
    await checked_out((mirror, many[0]), cache, Use("ben"))
    for commit in many[1:]:
        await checked_out((mirror, commit), cache, Use("ann"))

    assert many[0] in await names(cache) and 9 <= len(await names(cache)) <= 11
    await collect_repositories(cache, NOTHING_KEPT, now_s=time.time() + 1)
    assert {path.name for path in cache.rglob("*")} == {"checkouts", "room.lock"}


async def test_what_is_spared_is_for_who_has_little_in_all(
    user: Any, mirror_at: Any, disk: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("repo.disk.SMALL_BYTES", MIB // 2)
    many = [user.commit({"small": os.urandom(MIB // 8)}) for _ in range(4)]
    (disk / "others").write_bytes(bytes(DISK_BYTES - 2 * MIB))  # and less than a twentieth is left, soon
    (disk / "theirs").write_bytes(bytes(MIB))
    with Use("ann") as ann, Use("ben") as ben:
        with pytest.raises(DiskFull):
            for commit in many:
                await checkout(await mirror_at(user, commit), commit, disk, use=ann)
        mirror = await mirror_at(user, many[3])
        await checkout(mirror, many[3], disk, use=ben)


async def test_names_of_very_many_empty_files_take_room_too(user: Any, mirror_at: Any, disk: Path):
    commit = user.commit({f"{n}": "" for n in range(7000)})  # blocks of 28 MiB
    with pytest.raises(DiskFull):
        await checkout(await mirror_at(user, commit), commit, disk)
    assert not list(disk.rglob("*.part")) and await names(disk) == set()


PROMISED = """
import asyncio, sys
from pathlib import Path
from repo.cache import Use, lock_of, room_for
from repo.lock import file_lock
from repo.weight import Weight

async def main(root, held):
    use = Use("ann")
    assert use.take(Path(held))
    coming = root / "bundles" / "coming.bundle"
    async with file_lock(lock_of(coming)), room_for(coming, root, use, Weight(13 << 20)):
        print("promised", flush=True)
        await asyncio.sleep(600)

asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
"""


@pytest.fixture
def few_files(disk: Path) -> Path:
    """A disk for 2,000 files: each is worth 12 KiB of it."""
    subprocess.run(["mount", "-o", "remount,nr_inodes=2000", str(disk)], check=True)
    return disk


async def test_empty_files_are_worth_what_they_take_from_others(user: Any, mirror_at: Any, few_files: Path):
    user.commit({f"many/{file}": "" for file in range(400)})
    many = [user.commit({"another": f"{n}"}) for n in range(6)]
    mirror = await mirror_at(user, many[-1])
    with Use("ann") as ann, Use("ben") as ben:
        with pytest.raises(DiskFull, match="for one tenant"):
            for commit in many:
                await checked_out((mirror, commit), few_files, ann)
        (user.root / "many").rename(user.root.parent / "away")
        small = user.commit({"another": "and no more"})
        await checked_out((await mirror_at(user, small), small), few_files, ben)
    with Use("cleo") as cleo:  # and what nobody works on goes, until there are files again
        for commit in many[-2:]:
            await checked_out((mirror, commit), few_files, cleo)
        assert await names(few_files) > {*many[-2:], small}
    assert len(await names(few_files)) == 5  # one of ann's three went


async def test_what_comes_is_counted_before_it_is_there_and_not_of_a_killed_process(commits: Any, disk: Path):
    [(mirror, commit)] = await commits(1)
    held, mine = await checked_out((mirror, commit), disk, use=Use("ann")), disk / "bundles/mine.bundle"
    worker = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROMISED, str(disk), str(held)), stdout=asyncio.subprocess.PIPE
    )
    assert worker.stdout and await worker.stdout.readline() == b"promised\n"
    async with file_lock(lock_of(mine)):
        try:
            with pytest.raises(DiskFull):
                async with room_for(mine, disk, Use("ben"), Weight(10 * MIB)):
                    pass
            assert held.exists()
        finally:
            worker.send_signal(signal.SIGKILL)
            await worker.wait()
        async with room_for(mine, disk, Use("ben"), Weight(10 * MIB)):
            pass
    assert held.exists()  # there was room, once nothing came any more
    await collect_repositories(disk, NOTHING_KEPT, now_s=time.time() + 1)
    assert not held.exists() and list((disk / "bundles").glob("*.kept")) == []


async def test_who_fetches_more_into_anothers_mirror_pays_for_it(user: Any, tmp_path: Path):
    url = user.root.as_uri()
    user.commit({"a": os.urandom(MIB)})
    with Use("ann") as ann, Use("ben") as ben:
        await mirror_of(tmp_path, url=url, commit="main", protocols=("file",), use=ann)
        assert [each.owner for each in await kept_repositories(tmp_path)] == ["ann"]
        user.commit({"b": os.urandom(4 * MIB)})
        await mirror_of(tmp_path, url=url, commit="main", protocols=("file",), use=ben)
    [kept] = await kept_repositories(tmp_path)
    assert kept.owner == "ben" and 5 * MIB < kept.size_bytes < 6 * MIB


async def test_room_is_made_for_what_comes_without_a_length(commits: Any, disk: Path):
    for each in await commits(4):
        with Use("ann") as ann:
            await checked_out(each, disk, use=ann)
    mine = disk / "bundles/mine.bundle"
    async with file_lock(lock_of(mine)), room_for(mine, disk, Use("ben")) as more:
        for come_mib in range(1, 17):
            mine.write_bytes(bytes(come_mib * MIB))
            await more(come_mib * MIB)
        mine.write_bytes(bytes(19 * MIB))
        with pytest.raises(DiskFull, match="for one tenant"):
            await more(19 * MIB)
    assert await names(disk) == {mine.name}


async def test_what_diffs_make_of_a_mirror_is_its_tenants(user: Any, disk: Path, tmp_path: Path):
    """A mirror is written to while its tasks work, and no fetch says how much."""
    base = user.commit({"a": "1\n"})
    await bundle(user.root, base, tmp_path / "b")
    mine = disk / "bundles/mine.bundle"
    with Use("ann") as ann:
        mirror = await mirror_of(disk, bundle=tmp_path / "b", commit=base, use=ann)
        user.commit({"big": os.urandom(12 * MIB)})
        await apply_to_tree(mirror.git_dir, base, user.git("diff", "--binary", base, "HEAD").encode() + b"\n\n")
        os.utime(disk / "room.lock", (0, 0))  # a minute is over
        async with file_lock(lock_of(mine)):
            with pytest.raises(DiskFull, match="for one tenant"):
                async with room_for(mine, disk, ann, Weight(6 * MIB)):
                    pass
            async with room_for(mine, disk, Use("ben"), Weight(6 * MIB)):
                pass


async def test_what_an_older_release_kept_is_counted(user: Any, commits: Any, disk: Path):
    for each in await commits(5):
        await checked_out(each, disk)
    for note in disk.rglob("*.kept"):
        note.unlink()
    [another] = await commits(1)
    with Use("ben") as ben:
        await checked_out(another, disk, use=ben)
    assert len(await names(disk)) == 5


REMOVER = """
import asyncio, sys, time
from pathlib import Path
from repo.cache import collect_repositories
from repo.keeping import Allowance

async def main(cache):
    print("begun", flush=True)
    gone = 0
    while not (cache / "enough").exists():
        gone += len(await collect_repositories(cache, Allowance(0, 0), now_s=time.time() + 1))
    print(gone)

asyncio.run(main(Path(sys.argv[1])))
"""


async def test_nothing_vanishes_under_who_has_just_come(user: Any, tmp_path: Path):
    """Between the look and the hold, a remover in another process takes what it can, all the while."""
    cache = tmp_path / "cache"
    commit = user.commit({"a": "1\n"})
    await bundle(user.root, commit, tmp_path / "b")
    cache.mkdir()
    remover = await asyncio.create_subprocess_exec(
        sys.executable, "-c", REMOVER, str(cache), stdout=asyncio.subprocess.PIPE
    )
    assert remover.stdout and await remover.stdout.readline() == b"begun\n"

    async def work() -> None:
        for _ in range(8):
            with Use("ann") as use:
                mirror = await mirror_of(cache, bundle=tmp_path / "b", commit=commit, use=use)
                folder = await checkout(mirror, commit, cache, use=use)
                for _ in range(20):
                    assert (folder / "a").read_text() == "1\n" and mirror.objects.is_dir()
                    await asyncio.sleep(0.001)

    async with asyncio.timeout(60):
        await asyncio.gather(*(work() for _ in range(3)))
    (cache / "enough").touch()
    assert int((await remover.stdout.readline()).decode()) > 0
    await remover.wait()
