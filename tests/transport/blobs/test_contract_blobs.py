"""What every store of blobs promises."""

from __future__ import annotations

import asyncio

import pytest

from envelope.ids import blob_ref
from transport.blobs import content as rules
from transport.blobs import life_ms
from transport.blobs.life import GENERATION_MS
from transport.errors import NotFound, Refused, TransportError
from transport.limits import Limits

LIFE_MS = life_ms(Limits().retention_ms)
# Redis's clock goes on while a test runs; a minute is more than any of them takes.
TEST_MS = 60_000


@pytest.mark.parametrize("content", [b"content", b"", bytes(range(256)) * 400])
async def test_what_was_put_is_got_under_its_own_name(shelf, content):
    ref = await shelf.store.put(content)

    assert ref == blob_ref(content)
    got = await shelf.store.get(ref)
    assert (got, type(got)) == (content, bytes)


@pytest.mark.parametrize("contents", [[], [b"a"], [b"a", b"b" * 100_000, b"c", b"a"]])
async def test_what_was_put_together_is_got_one_by_one(shelf, contents):
    refs = await shelf.store.put_all(contents)

    assert refs == [blob_ref(content) for content in contents]
    assert [await shelf.store.get(ref) for ref in refs] == contents
    assert await shelf.size() == len(set(contents))


async def test_of_contents_of_which_one_is_too_large_that_one_is_refused(shelf, monkeypatch):
    monkeypatch.setattr(rules, "MAX_BLOB_BYTES", 10)

    with pytest.raises(Refused, match="11 bytes are over the limit of 10"):
        await shelf.store.put_all([b"x", b"x" * 11])


async def test_the_same_content_twice_is_one_blob(shelf):
    assert await shelf.store.put(b"content") == await shelf.store.put(b"content")
    assert await shelf.size() == 1


async def test_the_same_content_from_many_at_once_is_one_whole_blob(shelf):
    content = b"x" * 1_000_000
    (ref,) = set(await asyncio.gather(*(shelf.store.put(content) for _ in range(8))))

    assert await shelf.store.get(ref) == content
    assert await shelf.size() == 1


@pytest.mark.parametrize("forged", [b"forgery", b"longer than the content was", b""])
async def test_content_that_was_changed_in_its_store_is_refused(shelf, forged):
    ref = await shelf.store.put(b"content")
    await shelf.tamper(ref, forged)

    with pytest.raises(TransportError, match="was changed in its store"):
        await shelf.store.get(ref)


@pytest.mark.parametrize(
    "ref", ["", "md5:1", "sha256:", "sha256:../../etc/passwd", "../blobs", "sha256:" + "a" * 64, "sha256:" + "A" * 64]
)
async def test_a_name_of_nothing_is_not_found(shelf, ref):
    with pytest.raises(NotFound):
        await shelf.store.get(ref)


async def test_a_blob_over_the_limit_is_refused_and_one_at_the_limit_is_not(shelf, monkeypatch):
    monkeypatch.setattr(rules, "MAX_BLOB_BYTES", 10)

    await shelf.store.put(b"x" * 10)
    with pytest.raises(Refused, match="11 bytes are over the limit of 10"):
        await shelf.store.put(b"x" * 11)


async def test_a_blob_that_nobody_reads_lives_as_long_as_promised(shelf):
    ref = await shelf.store.put(b"content")
    await shelf.pass_time(LIFE_MS - TEST_MS)

    assert await shelf.store.get(ref) == b"content"


async def test_a_blob_that_nobody_uses_goes_and_can_be_put_again(shelf):
    ref = await shelf.store.put(b"content")
    await shelf.pass_time(LIFE_MS + GENERATION_MS)

    assert await shelf.size() == 0
    with pytest.raises(NotFound):
        await shelf.store.get(ref)
    assert await shelf.store.get(await shelf.store.put(b"content")) == b"content"


@pytest.mark.parametrize("use", ["read", "put"])
async def test_a_blob_in_use_is_renewed_again_and_again(shelf, use):
    ref = await shelf.store.put(b"content")
    for _ in range(4):
        await shelf.pass_time(LIFE_MS - TEST_MS)
        await (shelf.store.get(ref) if use == "read" else shelf.store.put(b"content"))

    await shelf.pass_time(LIFE_MS - TEST_MS)
    assert await shelf.store.get(ref) == b"content"


async def test_only_what_is_over_is_collected(shelf):
    old = [await shelf.store.put(b"old %d" % number) for number in range(3)]
    await shelf.pass_time(LIFE_MS // 2)
    young = await shelf.store.put(b"young")
    await shelf.pass_time(LIFE_MS // 2 + GENERATION_MS)

    assert await shelf.store.get(young) == b"young"
    assert await shelf.size() == 1
    for ref in old:
        with pytest.raises(NotFound):
            await shelf.store.get(ref)


async def test_collecting_an_empty_store_is_no_error(shelf):
    assert await shelf.pass_time(LIFE_MS + GENERATION_MS) == 0
