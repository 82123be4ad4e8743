"""What a machine keeps of repositories, and for how long."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from repo.cache import collect_repositories, kept_repositories
from repo.checkout import checkout
from repo.keeping import DAY_S, GIB, IN_USE_S, Allowance, Kept, surplus
from repo.lock import file_lock
from repo.mirror import Mirror, mirror_of
from repo.temporary import abandoned_folders, temporary_folder

A_WEEK = Allowance(max_age_s=7 * DAY_S, max_bytes=GIB)


def names(kept: list[Kept]) -> list[str]:
    return [each.name for each in kept]


def test_what_is_too_old_goes_and_then_what_is_too_much_the_oldest_first():
    now_s = 100 * DAY_S
    ages_days = {"ancient": 10, "old": 3, "older": 4, "young": 1}
    kept = [Kept(name, 10, now_s - days * DAY_S) for name, days in ages_days.items()]

    assert names(surplus(kept, A_WEEK, now_s)) == ["ancient"]
    assert names(surplus(kept, Allowance(7 * DAY_S, 20), now_s)) == ["ancient", "older"]
    assert names(surplus(kept, Allowance(7 * DAY_S, 0), now_s)) == ["ancient", "older", "old", "young"]


def test_what_was_used_a_moment_ago_stays_however_much_it_is():
    assert surplus([Kept("busy", GIB, used_at_s=1000)], Allowance(1, 0), now_s=1000 + IN_USE_S) == []


@pytest.fixture
async def kept(tmp_path: Path) -> tuple[Mirror, str, Path]:
    """A mirror, its commit, and the cache that has both of them and a checkout, all untouched for a month."""
    source, cache = tmp_path / "source", tmp_path / "cache"
    git = ["git", "-C", str(source), "-c", "user.name=x", "-c", "user.email=x@localhost"]
    subprocess.run(["git", "init", "-q", str(source)], check=True)
    (source / "file").write_text("content\n")
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    commit = subprocess.check_output([*git, "rev-parse", "HEAD"], text=True).strip()
    mirror = await mirror_of(cache, url=source.as_uri(), commit=commit, protocols=("file",))
    await checkout(mirror, commit, cache)
    age(cache)
    return mirror, commit, cache


def age(cache: Path) -> None:
    month_ago_s = time.time() - 30 * DAY_S
    for lock in cache.rglob("*.lock"):
        os.utime(lock, (month_ago_s, month_ago_s))


async def test_an_old_repository_goes_and_comes_again_when_it_is_wanted(kept, tmp_path):
    mirror, commit, cache = kept
    listed = await kept_repositories(cache)
    assert [each.size_bytes > 1000 for each in listed] == [True, True]

    gone = await collect_repositories(cache, A_WEEK, now_s=time.time())

    assert names(gone) == names(listed) == [f"checkouts/{mirror.key}/{commit}", f"mirrors/{mirror.key}.git"]
    assert await kept_repositories(cache) == []
    again = await mirror_of(cache, url=(tmp_path / "source").as_uri(), commit=commit, protocols=("file",))
    assert (await checkout(again, commit, cache) / "file").read_text() == "content\n"


def test_of_several_owners_the_one_who_has_most_gives_way():
    of_one = [Kept(f"one-{n}", 10, used_at_s=1000 + n, owner="one") for n in range(3)]
    of_two = [Kept("two-0", 10, used_at_s=0, owner="two")]
    going = surplus([*of_two, *of_one], Allowance(DAY_S, max_bytes=20), now_s=IN_USE_S + 2000)
    assert [each.name for each in going] == ["one-0", "one-1"]


async def test_use_keeps_a_repository(kept):
    mirror, commit, cache = kept
    await mirror_of(cache, url=mirror.git_dir.as_uri(), commit=commit, shared_by=["another"], protocols=("file",))
    await checkout(mirror, commit, cache)

    assert await collect_repositories(cache, A_WEEK, now_s=time.time()) == []


async def test_what_somebody_is_making_stays(kept):
    mirror, commit, cache = kept
    async with file_lock(cache / "checkouts" / mirror.key / f"{commit}.lock"):
        assert await collect_repositories(cache, A_WEEK, now_s=time.time()) == []


async def test_a_lock_whose_file_was_removed_is_no_lock(tmp_path: Path):
    """Who had waited for it would share it with nobody."""
    path, order = tmp_path / "lock", list[str]()

    async def hold(name: str) -> None:
        async with file_lock(path):
            order.append(f"{name} in")
            await asyncio.to_thread(path.stat)
            order.append(f"{name} out")

    async with file_lock(path):
        waiter = asyncio.create_task(hold("waiter"))
        while "->" not in _locks_of(path):
            await asyncio.sleep(0)
        path.unlink()
    await asyncio.gather(waiter, hold("other"))

    assert sorted((order[:2], order[2:])) == [["other in", "other out"], ["waiter in", "waiter out"]]
    assert path.exists()


def _locks_of(path: Path) -> str:
    """As the kernel tells them; who waits has an arrow."""
    return "".join(line for line in Path("/proc/locks").read_text().splitlines() if f":{path.stat().st_ino} " in line)


async def test_half_of_a_thing_goes(kept):
    _, _, cache = kept
    part = cache / "mirrors" / "killed.part"
    part.mkdir()
    os.utime(part, (0, 0))

    await collect_repositories(cache, A_WEEK, now_s=time.time())

    assert not part.exists()


HOLDER = "from repo.temporary import *\nwith temporary_folder('x') as f:\n    print(f, flush=True)\n    input()"


async def test_a_killed_process_leaves_no_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pipe = asyncio.subprocess.PIPE
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, stdin=pipe, stdout=pipe, env={**os.environ, "TMPDIR": str(tmp_path)}
    )
    assert holder.stdout
    left = Path((await holder.stdout.readline()).decode().strip())
    with temporary_folder("mine") as mine:
        assert list(abandoned_folders()) == []
        holder.send_signal(signal.SIGKILL)
        await holder.wait()

        assert left.is_dir()
        assert list(abandoned_folders()) == [left]
        assert not left.exists() and mine.is_dir()
    assert list(tmp_path.iterdir()) == []
