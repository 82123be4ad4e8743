"""Archives of strangers: nothing but plain files comes out, and never outside of the folder."""

from __future__ import annotations

import io
import stat
import tarfile
import zipfile
from pathlib import Path

import pytest

from workers.sandboxes.unpacking import unpack


def tar_of(path: Path, *members: tuple[str, bytes | None, bytes], mode: str = "w:gz") -> str:
    """Name, content (None: no file), type of each member."""
    with tarfile.open(path, mode) as packed:  # type: ignore[call-overload]
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            info.type, info.size, info.linkname = kind, len(content or b""), "/etc/passwd"
            packed.addfile(info, io.BytesIO(content or b""))
    return str(path)


def zip_of(path: Path, *members: tuple[str, bytes, int]) -> str:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content, mode in members:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            packed.writestr(info, content)
    return str(path)


def found(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_plain_files_of_a_tar_come_out(tmp_path: Path, mode: str):
    archive = tar_of(tmp_path / "a.tar", ("a/b.txt", b"b", tarfile.REGTYPE), ("c", b"c", tarfile.REGTYPE), mode=mode)

    assert unpack(archive, str(tmp_path / "out"), 10, 1000) == {"files": 2, "bytes": 2, "left_out": []}
    assert found(tmp_path / "out") == {"a/b.txt": b"b", "c": b"c"}


def test_links_devices_and_ways_out_of_a_tar_stay_in(tmp_path: Path):
    archive = tar_of(
        tmp_path / "a.tar.gz",
        ("../evil", b"x", tarfile.REGTYPE),
        ("/abs", b"x", tarfile.REGTYPE),
        ("a/../../evil", b"x", tarfile.REGTYPE),
        ("link", None, tarfile.SYMTYPE),
        ("link/evil", b"x", tarfile.REGTYPE),
        ("hard", None, tarfile.LNKTYPE),
        ("dev", None, tarfile.CHRTYPE),
        ("pipe", None, tarfile.FIFOTYPE),
    )

    told = unpack(archive, str(tmp_path / "out"), 10, 1000)

    assert found(tmp_path / "out") == {"link/evil": b"x"}
    assert [line.split(": ")[1] for line in told["left_out"]] == [
        *["it leads out of the folder"] * 3, "no plain file", *["no plain file"] * 3,
    ]  # fmt: skip
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tar.gz", "out"]


def test_links_and_ways_out_of_a_zip_stay_in(tmp_path: Path):
    archive = zip_of(
        tmp_path / "a.zip",
        ("../evil", b"x", 0),
        ("a\\..\\b", b"x", 0),
        ("link", b"/etc/passwd", stat.S_IFLNK | 0o777),
        ("fine", b"y", stat.S_IFREG | 0o644),
    )

    told = unpack(archive, str(tmp_path / "out"), 10, 1000)

    assert found(tmp_path / "out") == {"fine": b"y"}
    assert len(told["left_out"]) == 3


def test_a_bomb_ends_at_the_limit(tmp_path: Path):
    archive = zip_of(tmp_path / "a.zip", ("small", b"s", 0), ("bomb", b"\0" * 50_000_000, 0), ("later", b"l", 0))

    told = unpack(archive, str(tmp_path / "out"), 10, 1_000_000)

    assert (told["files"], told["left_out"]) == (1, ["the rest: it is too large unpacked"])
    assert found(tmp_path / "out") == {"small": b"s"}


def test_many_files_end_at_the_limit(tmp_path: Path):
    archive = zip_of(tmp_path / "a.zip", *((f"f{n}", b"", 0) for n in range(9)))

    told = unpack(archive, str(tmp_path / "out"), 4, 1000)

    assert (told["files"], told["left_out"]) == (4, ["all after 4 files"])


@pytest.mark.parametrize(
    "content", [b"", b"no archive", b"PK\x05\x06" + b"\0" * 18 + b"x" * 9, b"\x1f\x8b\x08\0broken"]
)
def test_what_is_no_archive_says_so(tmp_path: Path, content: bytes):
    (tmp_path / "a.zip").write_bytes(content)

    told = unpack(str(tmp_path / "a.zip"), str(tmp_path / "out"), 10, 1000)

    assert told["files"] == 0


def test_a_name_that_stands_twice_comes_once(tmp_path: Path):
    archive = tar_of(tmp_path / "a.tar", ("a", b"1", tarfile.REGTYPE), ("a", b"2", tarfile.REGTYPE), mode="w")

    told = unpack(archive, str(tmp_path / "out"), 10, 1000)

    assert found(tmp_path / "out") == {"a": b"1"}
    assert len(told["left_out"]) == 1
