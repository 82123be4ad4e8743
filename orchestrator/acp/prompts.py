"""A prompt as an editor sends it, in blocks, as what an agent is told: its words, and files that go along."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from mimetypes import guess_extension
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

from acp.schema import (
    AudioContentBlock,
    BlobResourceContents,
    EmbeddedResourceContentBlock,
    ImageContentBlock,
    ResourceContentBlock,
    TextContentBlock,
    TextResourceContents,
)

from ..errors import BadInput

Block = TextContentBlock | ImageContentBlock | AudioContentBlock | ResourceContentBlock | EmbeddedResourceContentBlock

MAX_PROMPT_BYTES = 256 * 1024  # a quarter of what a message may have
MAX_INLINE_CHARS = 16 * 1024  # of a file that the editor sends; longer ones go along beside the prompt
LOOK = "Look at what goes along."  # where nothing is said to it


@dataclass(frozen=True, slots=True)
class File:
    """What goes along, not stored yet."""

    name: str
    content: bytes
    media_type: str


@dataclass(frozen=True, slots=True)
class Prompt:
    text: str
    files: tuple[File, ...] = ()


def prompt_of(blocks: Sequence[Block], root: Path) -> Prompt:
    """`BadInput` for nothing, for too much, and for what nobody here can hear."""
    words: list[str] = []
    files: list[File] = []
    for block in blocks:
        match block:
            case TextContentBlock():
                words.append(block.text)
            case ImageContentBlock():
                name = f"image-{len(files) + 1}{guess_extension(block.mime_type) or ''}"
                files.append(File(name, _decoded(block.data), block.mime_type))
            case ResourceContentBlock():
                words.append(_place(block.uri, root))
            case EmbeddedResourceContentBlock():
                _embed(block.resource, root, words, files)
            case AudioContentBlock():
                raise BadInput("audio cannot be heard", hint="say it in words")
    return Prompt(_checked("".join(words).strip() or (LOOK if files else "")), tuple(files))


def _checked(text: str) -> str:
    if not text:
        raise BadInput("there is nothing in the prompt", hint="say what the agent should do")
    if (size := len(text.encode(errors="replace"))) > MAX_PROMPT_BYTES:
        said = f"the prompt has {size / 1024:,.0f} KiB, and {MAX_PROMPT_BYTES // 1024} KiB are the most"
        raise BadInput(said, hint="name files instead of pasting them: the agent reads what it needs")
    return text


def _embed(
    resource: TextResourceContents | BlobResourceContents, root: Path, words: list[str], files: list[File]
) -> None:
    place = _place(resource.uri, root)
    if isinstance(resource, BlobResourceContents):
        files.append(File(_name(place), _decoded(resource.blob), resource.mime_type or "application/octet-stream"))
        words.append(place)
    elif len(resource.text) <= MAX_INLINE_CHARS:
        words.append(f'\n<file path="{place}">\n{resource.text}\n</file>\n')
    else:
        files.append(File(_name(place), resource.text.encode(errors="replace"), resource.mime_type or "text/plain"))
        words.append(place)


def _place(uri: str, root: Path) -> str:
    """A file of the repository by its path there, which is its path in the sandbox, too; all else as it stands."""
    try:
        parts = urlsplit(uri)
    except ValueError:  # no address at all
        return uri
    if parts.scheme not in ("", "file"):
        return uri
    path = Path(unquote(parts.path))
    lines = f"#{parts.fragment}" if parts.fragment else ""
    return f"{path.relative_to(root) if path.is_relative_to(root) else path}{lines}"


def _name(place: str) -> str:
    return PurePosixPath(place).name or "file"


def _decoded(data: str) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as e:
        raise BadInput("a file in the prompt is no base64", hint="the editor must send it so") from e
