"""What comes with a request: short texts stand in the prompt, all else lies in a folder of the sandbox."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from envelope.messages import Attachment
from sandbox.base import Command, Sandbox
from transport.blobs.base import Blobs
from transport.errors import NotFound

from ..errors import BadInput
from ..llm.base import FilePart
from ..llm.files import MAX_FILE_BYTES, media_type_of
from ..project.framing import one_line, within
from ..sandboxes import unpacking
from ..sandboxes.of_task import NOTHING, Furnished
from ..tools.files import is_binary

FOLDER = "/tmp/attachments"  # noqa: S108 - inside the sandbox
# A page or two each; more is read when it is needed.
INLINE_BYTES = 16 * 1024
ALL_INLINE_BYTES = 64 * 1024
MAX_ATTACHMENTS = 50
# The sandbox's /tmp holds 512 MiB: half of it, and as much again for what archives hold, would leave nothing.
MAX_BYTES = 128 * 1024 * 1024
MAX_FILES = 2000
UNPACK_TIMEOUT_S = 60.0
ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
UNPACK = Path(unpacking.__file__).read_bytes()

_ODD = re.compile(r"[^\w.@+=-]+")


@dataclass(frozen=True, slots=True)
class Named:
    """An attachment with its content, and a name that is one folder entry and no other's."""

    name: str
    media_type: str
    content: bytes
    blob: str = ""

    @property
    def path(self) -> str:
        return posixpath.join(FOLDER, self.name)

    @property
    def is_archive(self) -> bool:
        return self.name.lower().endswith(ARCHIVES)


async def furnish(sandbox: Sandbox, attachments: Sequence[Attachment], blobs: Blobs) -> Furnished:
    """Put them into a fresh sandbox; what the prompt says of them, and those that a model can be shown with it.

    `BadInput` for more than there is room for.
    """
    if not attachments:
        return NOTHING
    inline, files = sort_out(await _loaded(attachments, blobs))
    left = [MAX_FILES, MAX_BYTES]
    lines = [await _place(sandbox, file, left) for file in files]
    texts = [
        f'<attachment name="{text.name}">\n{within("attachment", _decoded(text.content))}\n</attachment>'
        for text in inline
    ]
    text = "\n".join(["# Attachments", *texts, *lines])
    return Furnished(text, tuple(part for file in files if (part := _part(file))))


def sort_out(named: Sequence[Named]) -> tuple[list[Named], list[Named]]:
    """Texts for the prompt, and the rest. Their order is kept."""
    inline: list[Named] = []
    left = ALL_INLINE_BYTES
    for one in named:
        size = len(one.content)
        if size <= min(left, INLINE_BYTES) and not one.is_archive and not is_binary(one.name, one.content):
            inline.append(one)
            left -= size
    return inline, [one for one in named if one not in inline]


def entry_name(name: str, taken: Mapping[str, object]) -> str:
    """What a file may be called that a stranger named; `taken` are the names that others have.

    >>> entry_name("../../etc/pass wd", {}), entry_name("..", {}), entry_name("a.txt", {"a.txt": 1})
    ('pass_wd', 'attachment', '2-a.txt')
    """
    plain = _ODD.sub("_", name.replace("\\", "/").rstrip("/").rpartition("/")[2]).lstrip(".-")[:100] or "attachment"
    number, free = 1, plain
    while free in taken:
        number += 1
        free = f"{number}-{plain}"
    return free


async def _loaded(attachments: Sequence[Attachment], blobs: Blobs) -> list[Named]:
    if len(attachments) > MAX_ATTACHMENTS:
        raise BadInput(
            f"{len(attachments)} attachments are more than {MAX_ATTACHMENTS}", hint="send them as one archive"
        )
    loaded: dict[str, Named] = {}
    size = 0
    for attachment in attachments:
        try:
            content = await blobs.get(attachment.blob)
        except NotFound as e:
            raise BadInput(f"the attachment {attachment.name!r} is not kept any more", hint="upload it again") from e
        size += len(content)
        if size > MAX_BYTES:
            raise BadInput(f"the attachments have more than {MAX_BYTES} bytes", hint="leave out what is not needed")
        name = entry_name(attachment.name, loaded)
        loaded[name] = Named(name, attachment.media_type, content, attachment.blob)
    return [*loaded.values()]


async def _place(sandbox: Sandbox, file: Named, left: list[int]) -> str:
    """Write the file, and beside it what it holds if it is an archive; a line about it for the prompt."""
    await sandbox.write(file.path, file.content)
    about = f"- {file.path} ({len(file.content)} bytes)"
    if file.is_archive:
        return f"{about}: an archive, {await _unpack(sandbox, file, left)}"
    if _part(file):
        return f"{about}: goes with this message"
    if file.media_type.startswith("image/"):
        return (
            f"{about}: an image ({file.media_type}), which cannot be shown in a message; use commands to look into it"
        )
    return about


def _part(file: Named) -> FilePart | None:
    """What a model can be shown of the file."""
    size_bytes, media_type = len(file.content), media_type_of(file.content)
    if not media_type or size_bytes > MAX_FILE_BYTES:
        return None
    return FilePart(blob=file.blob, media_type=media_type, name=file.name, size_bytes=size_bytes)


async def _unpack(sandbox: Sandbox, archive: Named, left: list[int]) -> str:
    """Inside: whatever a hostile archive does to who unpacks it, it does to the sandbox."""
    target = f"{archive.path}.d"
    argv = ["python3", "-I", "-", archive.path, target, *map(str, left)]
    ended = await sandbox.exec(Command(argv, cwd="/", stdin=UNPACK, timeout_s=UNPACK_TIMEOUT_S))
    try:
        told: dict[str, Any] = json.loads(ended.output) if ended.exit_code == 0 else {}
    except ValueError:
        told = {}
    if not told:
        return "which could not be unpacked"
    left[0] -= int(told["files"])
    left[1] -= int(told["bytes"])
    missing = f"; left out: {one_line('; '.join(told['left_out']))}" if told["left_out"] else ""
    return f"unpacked under {target}: {told['files']} files{missing}"


def _decoded(content: bytes) -> str:
    return content.decode("utf-8-sig", "replace").rstrip("\n")
