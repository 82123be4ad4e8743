"""Blobs in a bucket, against moto's server over HTTP; and how an operator names a place for blobs."""

from __future__ import annotations

import logging
import os
import socket
import sys

import obstore
import pytest

from envelope.redaction import redact
from transport.blobs import DirectoryBlobs, open_blobs, s3
from transport.blobs.life import GENERATION_MS
from transport.blobs.s3 import S3Blobs, open_bucket
from transport.errors import Misconfigured, NotFound, Unreachable
from transport.settings import FleetSettings, connect

YEAR_MS = 365 * 24 * 3600 * 1000


@pytest.fixture
def requests(caplog):
    """What the S3 server was asked since, one line each."""
    caplog.set_level(logging.INFO, logger="werkzeug")
    return lambda: [record.getMessage() for record in caplog.records if record.name == "werkzeug"]


async def test_a_large_blob_goes_in_parts_and_comes_back_whole(s3_shelf, requests):
    content = bytes(range(256)) * 80_000  # 20 MB
    ref = await s3_shelf.store.put(content)

    assert await s3_shelf.store.get(ref) == content
    assert len({line for line in requests() if "partNumber=" in line}) > 1


async def test_a_blob_that_is_there_is_not_sent_again(s3_shelf, requests):
    await s3_shelf.store.put(b"content")
    before = len(requests())
    await s3_shelf.store.put(b"content")

    (asked,) = requests()[before:]
    assert '"HEAD ' in asked


async def test_the_bucket_is_never_listed_to_put_or_to_get(s3_shelf, requests):
    ref = await s3_shelf.store.put(b"content")
    s3_shelf.now_ms += GENERATION_MS
    await s3_shelf.store.get(ref)

    assert len(requests()) >= 4  # HEAD, PUT, GET, and the copy that renews
    assert not [line for line in requests() if "list-type" in line]


async def test_a_blob_is_renewed_inside_the_service_and_once_per_generation(s3_shelf, requests):
    ref = await s3_shelf.store.put(b"content")
    s3_shelf.now_ms += GENERATION_MS
    before = len(requests())
    for _ in range(3):
        await s3_shelf.store.get(ref)

    assert len([line for line in requests()[before:] if "PUT" in line]) == 1
    assert await s3_shelf.size() == 1


async def test_a_blob_that_is_collected_while_it_is_read_is_put_anew(s3_shelf):
    await s3_shelf.store._renew("1970-01-01/gone", "1970-01-04/kept", b"content")

    assert await s3_shelf.paths() == ["1970-01-04/kept"]


async def test_more_blobs_than_one_order_can_delete_are_collected(s3_shelf, monkeypatch):
    monkeypatch.setattr(s3, "NAMES_AT_ONCE", 2)
    for number in range(5):
        await s3_shelf.store.put(b"%d" % number)

    assert await s3_shelf.pass_time(YEAR_MS) == 5
    assert await s3_shelf.paths() == []


async def test_what_is_not_ours_in_the_bucket_stays(s3_shelf):
    strangers = ["1970-01-02/file", "notes/file", "file"]
    for path in strangers:
        await obstore.put_async(s3_shelf.store._store, path, b"somebody's")
    await s3_shelf.pass_time(YEAR_MS)

    assert sorted(await s3_shelf.paths()) == sorted(strangers)


async def test_a_bucket_that_does_not_exist_is_the_operators_to_make(s3_endpoint):
    store = open_bucket("no-such-bucket", "", endpoint=s3_endpoint, region="eu-west-1", retention_ms=0)

    for work in (store.put(b"x"), store.get("sha256:" + "a" * 64), store.collect(now_ms=0)):
        with pytest.raises(Misconfigured, match="does not exist"):
            await work


async def test_a_service_that_does_not_answer_is_unreachable(s3_endpoint, monkeypatch):
    monkeypatch.setattr(s3, "MAX_RETRIES", 0)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, never listening
        host, port = closed.getsockname()
        store = open_bucket("bucket", "", endpoint=f"http://{host}:{port}", region="eu-west-1", retention_ms=0)
        with pytest.raises(Unreachable) as fault:
            await store.put(b"x")
    assert "\n" not in str(fault.value)


async def test_a_bucket_is_named_by_its_address(s3_endpoint):
    store = open_blobs(f"s3://muster-test/some/prefix?endpoint={s3_endpoint}&region=eu-west-1", retention_ms=0)

    assert isinstance(store, S3Blobs)
    assert await store.get(await store.put(b"content")) == b"content"
    assert store._store.prefix == "some/prefix"


@pytest.mark.redis
async def test_a_fleet_keeps_small_blobs_in_redis_and_large_ones_where_it_is_told(
    redis_server, s3_endpoint, tmp_path, monkeypatch
):
    monkeypatch.setenv("MUSTER_REDIS_URL", redis_server.url)
    monkeypatch.setenv("MUSTER_BLOBS", f"s3://muster-test/a-fleet?endpoint={s3_endpoint}&region=eu-west-1")
    fleet = await connect(FleetSettings(state_dir=tmp_path, fleet="bucket"))
    try:
        refs = [await fleet.blobs.put(content) for content in (b"small", b"large" * 10_000)]
        assert [await fleet.blobs.get(ref) for ref in refs] == [b"small", b"large" * 10_000]

        in_bucket = open_blobs(os.environ["MUSTER_BLOBS"], retention_ms=0)
        assert await in_bucket.get(refs[1]) == b"large" * 10_000
        with pytest.raises(NotFound):
            await in_bucket.get(refs[0])
        assert await fleet.blobs.collect(now_ms=await fleet.now_ms() + YEAR_MS) == 1
    finally:
        await fleet.close()


def test_a_folder_is_named_by_its_path(tmp_path):
    store = open_blobs(str(tmp_path), retention_ms=0)

    assert isinstance(store, DirectoryBlobs)
    assert store.root == tmp_path


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("blobs", "neither a bucket nor an absolute folder"),
        ("gs://bucket", "neither a bucket nor an absolute folder"),
        ("s3:///prefix", "names no bucket"),
        ("s3://bucket?endpont=http://localhost", "unknown option 'endpont'"),
        ("s3://key:hunter2-hunter2@bucket", "carries credentials"),
        ("s3://bucket?endpoint=http://key:hunter2-hunter2@localhost", "carries credentials"),
    ],
)
def test_a_place_that_cannot_be_one_is_refused_without_repeating_its_secrets(place, words):
    with pytest.raises(Misconfigured, match=words) as refusal:
        open_blobs(place, retention_ms=0)
    assert refusal.value.hint
    assert "hunter2" not in f"{refusal.value} {refusal.value.hint}"


def test_without_its_extra_s3_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.delitem(sys.modules, "transport.blobs.s3")

    with pytest.raises(Misconfigured) as refusal:
        open_blobs("s3://bucket", retention_ms=0)
    assert "muster[s3]" in refusal.value.hint


def test_the_secret_key_is_blanked_out_wherever_texts_are_shown(monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "a-key-that-is-shown-nowhere")
    open_blobs("s3://bucket?region=eu-west-1", retention_ms=0)

    assert "shown-nowhere" not in redact("it is a-key-that-is-shown-nowhere")
