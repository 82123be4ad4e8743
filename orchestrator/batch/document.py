"""A batch as a document that came over the network: nobody vouches for its size, nor for what is in it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, cast

import yaml

from ..errors import BadBatchFile
from .file import HELP, spec_of, values_in
from .spec import BatchSpec

# People write a hundredth of that. The reader of YAML takes up to 3 s for as much.
MAX_BYTES = {"TOML": 256 * 1024, "YAML": 64 * 1024, "JSON": 256 * 1024}
MAX_DEPTH = 100
MAX_VALUES = 30_000  # each that is wrong is an error of its own
NAME = "the batch"


async def read_document(content: bytes, language: str) -> BatchSpec:
    """`BadBatchFile` says what is wrong with it, and where. `language`: TOML, YAML or JSON."""
    return await asyncio.to_thread(_read, content, language)  # other calls go on meanwhile


def _read(content: bytes, language: str) -> BatchSpec:
    if len(content) > MAX_BYTES[language]:
        hint = "what prompts have to say at length can stand in a file of the project"
        raise BadBatchFile(f"{NAME} is larger than {MAX_BYTES[language]} bytes", hint=hint)
    try:
        text = content.decode()
    except UnicodeDecodeError as e:
        raise BadBatchFile(f"{NAME} is not UTF-8 text") from e
    if language == "YAML":
        _require_shallow(text)
        _require_no_aliases(text)
    values = values_in(text, language, NAME, hint=HELP)
    for each in _texts(values):
        if "\0" in each or any("\ud800" <= char <= "\udfff" for char in each):
            raise BadBatchFile(f"{NAME} has a text with a zero byte, or with half a character", hint="take it out")
    return spec_of(values, text, NAME)


def _require_shallow(text: str) -> None:
    """The reader's time grows with the square of the depth: 20,000 open brackets take it minutes."""
    depth = 0
    for char in text:
        depth += (char in "[{") - (char in "]}")
        if depth > MAX_DEPTH:
            raise BadBatchFile(
                f"{NAME} is not YAML that anybody wrote: {MAX_DEPTH} brackets are open", hint="send TOML"
            )


def _require_no_aliases(text: str) -> None:
    """A few lines of them, one merged into the next, would be more than any memory holds."""
    try:
        events = cast(Iterator[object], yaml.parse(text, Loader=yaml.SafeLoader))  # pyright: ignore[reportUnknownMemberType]
        if any(isinstance(event, yaml.AliasEvent) for event in events):
            raise BadBatchFile(f"{NAME} has YAML aliases (`*name`)", hint="write each value out")
    except (yaml.YAMLError, RecursionError):
        return  # what is wrong with it is said where it is read


def _texts(values: Any) -> Iterator[str]:
    waiting: list[Any] = [values]
    count = 0
    while waiting:
        one = waiting.pop()
        if (count := count + 1) > MAX_VALUES:
            raise BadBatchFile(f"{NAME} has more than {MAX_VALUES:,} values", hint="name files by globs, or send parts")
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            waiting.extend((*cast(dict[Any, Any], one).keys(), *cast(dict[Any, Any], one).values()))
        elif isinstance(one, list):
            waiting.extend(cast(list[Any], one))
