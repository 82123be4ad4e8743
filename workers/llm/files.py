"""Files in messages: which there are, which a model is shown, and what it reads in the place of others. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .base import ChatMessage, FilePart, Kind

# What providers take of one image is 5 MB in base64.
MAX_FILE_BYTES = 3_750_000
# Of one request they take 32 MB in base64, and from 20 images on only small ones. The newest files are shown.
MAX_SHOWN_BYTES = 16_000_000
MAX_SHOWN_FILES = 20

# A large image, as most providers count it; they make larger ones smaller.
IMAGE_TOKENS = 1_600
# What a provider counts of one image at most: Alibaba's 16,384 (Claude's newest 4,784, OpenAI's about 10,000, Gemini's
# 4,128). OpenAI's smallest model of 2024 counts each of 8 tiles as 5,667 and 2,833 beside, at a price that is lower.
MOST_IMAGE_TOKENS = 16_384
MOST_IMAGE_TOKENS_OF = {"gpt-4o-mini": 2_833 + 8 * 5_667}
# A guess: a page of text is about 3,000 tokens and seldom less than 20 kB. It is no bound (see `most_tokens`).
PDF_BYTES_PER_TOKEN = 6
MIN_PDF_TOKENS = 3_000

_STARTS = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
    b"%PDF-": "application/pdf",
}


def media_type_of(content: bytes) -> str:
    """What a model may be shown of, by the content alone: names lie. Empty for everything else.

    >>> media_type_of(b"GIF89a..."), media_type_of(b"RIFF....WEBPVP8 "), media_type_of(b"RIFF....WAVE")
    ('image/gif', 'image/webp', '')
    """
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    return next((media_type for start, media_type in _STARTS.items() if content.startswith(start)), "")


def file_tokens(file: FilePart) -> int:
    """What a file takes of a model's window, about."""
    return IMAGE_TOKENS if file.kind == "image" else max(MIN_PDF_TOKENS, file.size_bytes // PDF_BYTES_PER_TOKEN)


def most_tokens(file: FilePart, model: str, window: int) -> int:
    """What the model's provider can count of a file at most; never more than the window, or it refuses the request.

    Pages of a PDF can share what is on them, and a kilobyte unpack to a megabyte: its size says nothing.

    >>> paper = FilePart(blob="b", media_type="application/pdf", size_bytes=11_524)
    >>> file_tokens(paper), most_tokens(paper, "anthropic/claude-sonnet-4-5", 200_000)
    (3000, 200000)
    """
    if file.kind == "pdf":
        return window
    known = (most for name, most in MOST_IMAGE_TOKENS_OF.items() if name in model)
    return min(next(known, MOST_IMAGE_TOKENS), window)


def to_show(messages: Sequence[ChatMessage], sees: frozenset[Kind]) -> frozenset[str]:
    """The blobs of the files that a model which sees such kinds is shown: the newest, as far as there is room."""
    chosen: dict[str, int] = {}
    for message in reversed(messages):
        for file in reversed(message.files):
            if file.kind not in sees or file.blob in chosen:
                continue
            if len(chosen) == MAX_SHOWN_FILES or sum(chosen.values()) + file.size_bytes > MAX_SHOWN_BYTES:
                return frozenset(chosen)
            chosen[file.blob] = file.size_bytes
    return frozenset(chosen)


def sent_files(messages: Sequence[ChatMessage], sees: frozenset[Kind]) -> list[FilePart]:
    """The files that are sent with the messages: one that stands in two of them is sent twice."""
    if not any(message.files for message in messages):
        return []
    chosen = to_show(messages, sees)
    return [file for message in messages for file in message.files if file.blob in chosen]


def with_files(
    messages: Sequence[ChatMessage], contents: Mapping[str, str], sees: frozenset[Kind]
) -> list[ChatMessage]:
    """The messages as they are sent: files with their content in base64, by blob; a word in the place of others."""
    return [_sent(message, contents, sees) if message.files else message for message in messages]


def _sent(message: ChatMessage, contents: Mapping[str, str], sees: frozenset[Kind]) -> ChatMessage:
    shown = [file.model_copy(update={"data": contents[file.blob]}) for file in message.files if file.blob in contents]
    missing = [f"({_instead(file, sees)})" for file in message.files if file.blob not in contents]
    content = "\n".join((message.content, *missing))
    return message.model_copy(update={"content": content, "files": tuple(shown)})


def _instead(file: FilePart, sees: frozenset[Kind]) -> str:
    what = f"{file.name or 'a file'} ({file.media_type}, {file.size_bytes} bytes) is not shown"
    if file.kind not in sees:
        return f"{what}: this model takes no such files; use commands to find out what is in it"
    return f"{what} any more; read it again if you need it"
