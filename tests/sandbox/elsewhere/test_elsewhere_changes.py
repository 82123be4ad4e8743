"""What a sandbox says of its changes is looked at before it is believed, and a folder of this host made of it."""

from __future__ import annotations

import asyncio
import json
import os
import stat
from pathlib import Path

import pytest

from repo.scratch import make_git_dir
from sandbox.channel import Channel, encode
from sandbox.elsewhere.changes import Look, decoded
from sandbox.elsewhere.fetched import fetched_view
from sandbox.elsewhere.pack import pack_checkout
from sandbox.elsewhere.shadow import Shadow
from sandbox.errors import SandboxLost

FILE = stat.S_IFREG | 0o644
LINK = stat.S_IFLNK | 0o777


def said(changed: object = (), gone: object = (), unreadable: object = ()) -> bytes:
    return json.dumps({"changed": changed, "gone": gone, "unreadable": unreadable}).encode()


def test_what_makes_sense_is_taken():
    found = decoded(said([["a/b", FILE, 3], ["l\udcff", LINK, 1]], ["gone", "shut/in"], ["shut"]))

    assert found.changed == {b"a/b": Look(FILE, 3), b"l\xff": Look(LINK, 1)}
    assert found.gone == {b"gone"}  # nobody knows of what is in a folder that cannot be read


@pytest.mark.parametrize(
    "path",
    ["", "/etc/passwd", "..", "../up", "a/../../up", "a//b", "a/", "./a", ".git", ".git/hooks/x", "a\0b", "\ud800",
     "/".join(["d"] * 201), 7, None, ["a"]],
)  # fmt: skip
def test_a_path_that_leads_elsewhere_ends_the_sandbox(path: object):
    for body in (said([[path, FILE, 1]]), said(gone=[path]), said(unreadable=[path])):
        with pytest.raises(SandboxLost):
            decoded(body)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"1", b"[" * 100_000, said({}), said([["a"]]), said([["a", FILE, -1]]), said([["a", "rw", 1]]),
     said([["a", LINK, 1], ["a/b", FILE, 1]])],
)  # fmt: skip
def test_nonsense_ends_the_sandbox(body: bytes):
    with pytest.raises(SandboxLost):
        decoded(body)


class Liar:
    """A stream whose other end answers each request with what stands for it here."""

    complaint = b""

    def __init__(self, answers: dict[str, bytes]) -> None:
        self.answers = answers
        self.asked: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        request = json.loads((await self.asked.get())[8:].partition(b"}")[0] + b"}")
        body, end = self.answers.get(request["op"], b""), {"id": request["id"], "type": "end"}
        return encode({"id": request["id"], "type": "data"}, body) + encode(end, b"")

    async def write(self, data: bytes) -> None:
        self.asked.put_nowait(data)

    async def close(self) -> None: ...


@pytest.mark.parametrize("content", [b"", b"\0" * 8, (4).to_bytes(8, "big") + b"abc", (3).to_bytes(8, "big") + b"ab"])
async def test_files_that_are_not_as_long_as_was_said_end_the_sandbox(content: bytes, tmp_path: Path):
    make_git_dir(tmp_path / "git")
    channel = Channel(Liar({"changes": said([["a", FILE, 3]]), "fetch": content}), lambda: None)
    try:
        with pytest.raises(SandboxLost):
            async with fetched_view(channel, None, tmp_path / "git", None, whole=False):
                pass
    finally:
        await channel.close()


async def test_a_view_has_what_was_fetched_and_no_mode_but_git_s(tmp_path: Path):
    make_git_dir(tmp_path / "git")
    looks = [["a", stat.S_IFREG | 0o4711, 3], ["l", LINK, 4], ["big", FILE, 1 << 50], ["n/.git", FILE, 9]]
    content = (3).to_bytes(8, "big") + b"abc" + (4).to_bytes(8, "big") + b"/etc"
    channel = Channel(Liar({"changes": said(looks), "fetch": content}), lambda: None)
    try:
        async with fetched_view(channel, None, tmp_path / "git", None, whole=False) as view:
            assert not view.partial
            modes = {each.name: each.lstat().st_mode for each in view.work_tree.iterdir()}
            assert stat.S_IMODE(modes["a"]) == 0o700 and (view.work_tree / "a").read_bytes() == b"abc"
            assert os.readlink(view.work_tree / "l") == "/etc"
            assert (view.work_tree / "big").stat().st_blocks == 0
            assert (view.work_tree / "n/.git").is_dir()
    finally:
        await channel.close()
    assert not view.work_tree.exists()


def test_nothing_is_written_through_a_link_of_the_checkout(tmp_path: Path):
    checkout, outside = tmp_path / "checkout", tmp_path / "outside"
    checkout.mkdir(), outside.mkdir()
    (outside / "file").write_text("untouched")
    (checkout / "link").symlink_to(outside)
    shadow = Shadow(tmp_path / "shadow")
    shadow.start_from(checkout, [b"link/file"])
    with pytest.raises(OSError):
        shadow.put(b"link/file", Look(FILE, 4), b"mine")

    assert (outside / "file").read_text() == "untouched"
    shadow.put(b"link", Look(FILE, 4), b"mine")
    assert (shadow.folder / "link").read_text() == "mine"


def test_a_pack_is_named_by_all_that_is_in_it(tmp_path: Path):
    checkout = tmp_path / "checkout"
    checkout.mkdir()
    (checkout / "file").write_bytes(b"x" * 5000)
    packs = [pack_checkout(checkout, tmp_path / "first")]
    for change in (lambda: (checkout / "file").chmod(0o755), lambda: os.utime(checkout / "file", (1, 1)),
                   lambda: (checkout / "link").symlink_to("file")):  # fmt: skip
        change()
        packs.append(pack_checkout(checkout, tmp_path / f"pack{len(packs)}"))

    assert len({pack.digest for pack in packs}) == 4
    assert (packs[-1].laid_out_bytes, packs[-1].files) == (8192, 2)
