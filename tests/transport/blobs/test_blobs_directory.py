"""Blobs in a folder: what is special to files, and generations, which buckets keep, too."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transport.blobs import DirectoryBlobs, MemoryBlobs, TieredBlobs, life_ms
from transport.blobs.directory import DRAFT_LIFE_MS, DRAFTS
from transport.blobs.life import GENERATION_MS, LEEWAY_MS, Generations
from transport.errors import NotFound, TransportError
from transport.limits import Limits

DAY_MS = 24 * 3600 * 1000
times = st.integers(0, 200 * 365 * DAY_MS)
lives = st.integers(0, 365 * DAY_MS)


@given(used_at_ms=times, life=lives, later=st.floats(0, 1), skew_ms=st.integers(-LEEWAY_MS, LEEWAY_MS))
def test_a_generation_is_readable_and_not_over_for_a_life_also_when_clocks_differ(used_at_ms, life, later, skew_ms):
    generations = Generations(life)
    name = generations.current(used_at_ms)
    now_ms = used_at_ms + int(life * later)

    assert name in generations.readable(now_ms)
    assert not generations.is_over(name, now_ms)
    assert generations.current(max(0, now_ms + skew_ms)) in generations.readable(now_ms)


@given(used_at_ms=times, life=lives)
def test_a_generation_is_over_soon_after_a_life_and_is_then_not_looked_for(used_at_ms, life):
    generations, now_ms = Generations(life), used_at_ms + life + GENERATION_MS
    name = generations.current(used_at_ms)

    assert generations.is_over(name, now_ms)
    assert name not in generations.readable(now_ms)


@settings(max_examples=60, deadline=None)  # each example writes files: its time is the machine's
@given(st.lists(st.tuples(st.sampled_from(["put", "get", "collect"]), st.integers(0, 12 * DAY_MS)), max_size=30))
def test_no_schedule_loses_a_blob_within_its_life(steps):
    """The folder beside the rule: used less than a life ago it is there, a generation later it is not."""
    life, now_ms, used_at_ms = life_ms(DAY_MS), 7000 * GENERATION_MS, None

    async def run(store: DirectoryBlobs) -> None:
        nonlocal now_ms, used_at_ms
        ref = await store.put(b"content")
        used_at_ms = now_ms
        for step, pause_ms in steps:
            now_ms += pause_ms
            if step == "collect":
                await store.collect(now_ms=now_ms)
            elif step == "put":
                assert await store.put(b"content") == ref
                used_at_ms = now_ms
            elif await is_there(store, ref):
                assert now_ms - used_at_ms < life + GENERATION_MS
                used_at_ms = now_ms
            else:
                assert now_ms - used_at_ms > life

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(run(DirectoryBlobs(Path(folder), retention_ms=DAY_MS, clock=lambda: now_ms)))


async def is_there(store: DirectoryBlobs, ref: str) -> bool:
    try:
        return await store.get(ref) == b"content"
    except NotFound:
        return False


def test_what_a_trace_put_or_read_outlives_its_record_and_whoever_goes_on_from_it():
    for retention_ms in (DAY_MS, 7 * DAY_MS, 60 * DAY_MS):
        deadline_ms = Limits(retention_ms=retention_ms).max_deadline_ms
        record_gone_ms = deadline_ms + retention_ms  # counted from the put, which may have been the trace's first step

        assert life_ms(retention_ms) >= record_gone_ms + deadline_ms + LEEWAY_MS


async def test_a_renewed_blob_takes_no_more_room(directory_shelf):
    ref = await directory_shelf.store.put(b"content")
    directory_shelf.now_ms += GENERATION_MS
    await directory_shelf.store.get(ref)

    one, other = directory_shelf.files()
    assert one.samefile(other)


async def test_a_blob_that_is_collected_while_it_is_read_is_kept(directory_shelf):
    store = directory_shelf.store
    old, new = directory_shelf.root / "1970-01-01" / "gone", directory_shelf.root / "1970-01-04" / "kept"
    store._renew(old, new, b"content")

    assert new.read_bytes() == b"content"


async def test_a_file_that_was_cut_is_healed_by_the_next_put(directory_shelf):
    ref = await directory_shelf.store.put(b"content")
    await directory_shelf.tamper(ref, b"con")
    await directory_shelf.store.put(b"content")

    assert await directory_shelf.store.get(ref) == b"content"


async def test_drafts_of_the_dead_go_after_a_day_and_those_of_the_living_stay(directory_shelf):
    await directory_shelf.store.put(b"content")
    old, young = (directory_shelf.root / DRAFTS / name for name in ("old", "young"))
    for draft, age_ms in ((old, DRAFT_LIFE_MS + 1), (young, DRAFT_LIFE_MS - 1000)):
        draft.write_bytes(b"half a blo")
        written_s = (directory_shelf.now_ms - age_ms) / 1000
        os.utime(draft, (written_s, written_s))
    await directory_shelf.pass_time(0)

    assert [path.name for path in (directory_shelf.root / DRAFTS).iterdir()] == ["young"]


KILLED_WRITER = """
import asyncio, os, signal, sys
from pathlib import Path
from transport.blobs import DirectoryBlobs
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # after the bytes, before the name
asyncio.run(DirectoryBlobs(Path(sys.argv[1])).put(b"content" * 1000))
"""


async def test_a_writer_that_is_killed_leaves_no_half_blob(tmp_path):
    store = DirectoryBlobs(tmp_path)
    writer = subprocess.run([sys.executable, "-c", KILLED_WRITER, str(tmp_path)], cwd=Path(__file__).parents[3])

    assert writer.returncode == -signal.SIGKILL
    (draft,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert draft.parent.name == DRAFTS
    content = b"content" * 1000
    assert await store.get(await store.put(content)) == content


async def test_what_is_not_ours_in_the_folder_stays(directory_shelf):
    await directory_shelf.store.put(b"content")
    for name in ("notes", "1970-01-02", "2020"):  # the second is a date on which no generation begins
        (directory_shelf.root / name).mkdir()
        (directory_shelf.root / name / "file").write_bytes(b"somebody's")
    await directory_shelf.pass_time(10 * 365 * DAY_MS)

    assert {path.name for path in directory_shelf.root.iterdir()} == {DRAFTS, "notes", "1970-01-02", "2020"}


async def test_a_folder_that_cannot_be_used_says_so_with_its_name(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    store = DirectoryBlobs(tmp_path / "file" / "blobs")

    with pytest.raises(TransportError, match="file/blobs cannot be used: Not a directory"):
        await store.put(b"content")


async def test_others_may_not_look_into_the_folder(directory_shelf):
    await directory_shelf.store.put(b"content")

    (file,) = directory_shelf.files()
    assert file.parent.stat().st_mode & 0o077 == file.stat().st_mode & 0o077 == 0


async def test_tiers_split_by_size_and_are_read_as_one(tmp_path):
    small, large = MemoryBlobs(), DirectoryBlobs(tmp_path)
    tiers = TieredBlobs(small, large, limit_bytes=4)
    short, long = await tiers.put(b"1234"), await tiers.put(b"12345")

    assert (await tiers.get(short), await tiers.get(long)) == (b"1234", b"12345")
    assert (await small.get(short), await large.get(long)) == (b"1234", b"12345")
    with pytest.raises(NotFound):
        await small.get(long)


async def test_tiers_are_collected_together(directory_shelf):
    small = MemoryBlobs(clock=lambda: directory_shelf.now_ms)
    tiers = TieredBlobs(small, directory_shelf.store, limit_bytes=4)
    for content in (b"1234", b"12345"):
        await tiers.put(content)

    assert await tiers.collect(now_ms=directory_shelf.now_ms + 365 * DAY_MS) == 2
