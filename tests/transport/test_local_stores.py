"""Blobs in a directory, keyrings in a file, names of keys: what needs no server."""

from __future__ import annotations

import asyncio
import threading

import pytest

from envelope.ids import blob_ref, new_trace_id
from transport import blobs as blob_stores
from transport import keyring
from transport.blobs import DirectoryBlobs, MemoryBlobs, TieredBlobs
from transport.errors import Misconfigured, NotFound, Refused, TransportError
from transport.keys import CONTROL, CellKeys, cell_of


async def test_a_directory_keeps_a_blob_once_and_checks_it(tmp_path):
    store = DirectoryBlobs(tmp_path)
    ref = await store.put(b"content")

    assert await store.put(b"content") == ref == blob_ref(b"content")
    (file,) = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert await store.get(ref) == b"content"
    file.write_bytes(b"forged")
    with pytest.raises(TransportError, match="changed"):
        await store.get(ref)


@pytest.mark.parametrize("ref", ["sha256:../../etc/passwd", "", "sha256:" + "a" * 64, "md5:1"])
async def test_a_name_that_is_no_digest_is_not_found(tmp_path, ref):
    with pytest.raises(NotFound):
        await DirectoryBlobs(tmp_path).get(ref)


async def test_a_blob_over_the_limit_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(blob_stores, "MAX_BLOB_BYTES", 10)
    for store in (DirectoryBlobs(tmp_path), MemoryBlobs()):
        with pytest.raises(Refused, match="limit"):
            await store.put(b"x" * 11)


async def test_tiers_split_by_size_and_are_read_as_one(tmp_path):
    small, large = MemoryBlobs(), DirectoryBlobs(tmp_path)
    tiers = TieredBlobs(small, large, limit_bytes=4)
    short, long = await tiers.put(b"1234"), await tiers.put(b"12345")

    assert (await tiers.get(short), await tiers.get(long)) == (b"1234", b"12345")
    assert (await small.get(short), await large.get(long)) == (b"1234", b"12345")
    with pytest.raises(NotFound):
        await small.get(long)


async def test_one_blob_stored_by_many_at_once_is_whole(tmp_path):
    content = b"x" * 1_000_000
    refs = await asyncio.gather(*(DirectoryBlobs(tmp_path).put(content) for _ in range(8)))

    assert len(set(refs)) == 1
    assert await DirectoryBlobs(tmp_path).get(refs[0]) == content
    assert len([path for path in tmp_path.rglob("*") if path.is_file()]) == 1


def test_a_keyring_is_made_once_and_is_its_owners_only(tmp_path):
    path = tmp_path / "state" / "keyring.json"
    made = keyring.load_or_create(path)

    assert keyring.load_or_create(path) == made
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["keyring.json"]


def test_processes_that_start_together_get_the_same_keyring(tmp_path):
    path, rings = tmp_path / "keyring.json", []
    barrier = threading.Barrier(8)

    def start():
        barrier.wait()
        rings.append(keyring.load_or_create(path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({ring.keys["k1"] for ring in rings}) == 1


@pytest.mark.parametrize("content", ["", "[]", '{"current": "k1"}', '{"current": "k1", "keys": {"k1": "xyz"}}'])
def test_a_file_that_is_no_keyring_is_refused(tmp_path, content):
    path = tmp_path / "keyring.json"
    path.write_text(content)
    path.chmod(0o600)

    with pytest.raises(Misconfigured, match="not a keyring"):
        keyring.load_or_create(path)


def test_a_keyring_that_others_may_read_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / "keyring.json"
    keyring.load_or_create(path)
    path.chmod(0o644)

    with pytest.raises(Misconfigured) as refusal:
        keyring.load_or_create(path)
    assert "chmod 600" in refusal.value.hint


def test_keys_are_shown_by_no_repr():
    ring = keyring.fresh()

    assert ring.keys["k1"].hex() not in repr(ring)
    assert "k1" in repr(ring)


def test_every_key_of_the_table_is_found_by_a_name_made_from_it():
    keys = CellKeys("main")
    for row in CONTROL:
        name = keys.name(row.pattern.replace("{", "").replace("}", ""))
        assert keys.key_of(name) is not None, row.pattern
    assert keys.key_of("{muster:main:0}:unheard-of") is None


def test_a_trace_always_lives_in_the_same_cell_and_traces_spread():
    traces = [new_trace_id() for _ in range(1000)]

    assert [cell_of(trace, 4) for trace in traces] == [cell_of(trace, 4) for trace in traces]
    assert all(150 < [cell_of(trace, 4) for trace in traces].count(cell) < 350 for cell in range(4))
    assert {cell_of(trace) for trace in traces} == {0}
