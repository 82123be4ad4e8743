"""TOML of strangers: a repository's, or what came over the network. Its size is bounded where it is read."""

from __future__ import annotations

import re
import tomllib
from typing import Any

# As many parts and dots as nobody writes, where a key can begin (nothing else is looked at twice).
MAX_KEY_PARTS = 100
_KEY_PART = r"""(?:[\w-]++|"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
_LONG_KEY = re.compile(rf"(?:^|[\[{{,])[ \t]*+(?:{_KEY_PART}){{{MAX_KEY_PARTS}}}", re.MULTILINE)


class BadToml(ValueError):
    """In words for who wrote it."""


def read_toml(text: str) -> dict[str, Any]:
    """`BadToml` for what cannot be read, or not within reason.

    >>> read_toml("a.b = 1")
    {'a': {'b': 1}}
    """
    if _LONG_KEY.search(text):  # tomllib keeps every beginning of such a key: 8,000 parts take it 300 MB
        raise BadToml(f"a key has more than {MAX_KEY_PARTS} parts")
    try:
        return tomllib.loads(text)
    except RecursionError as e:
        raise BadToml("it is nested too deeply") from e
    except ValueError as e:  # a number of very many digits, too
        raise BadToml(str(e)) from e
