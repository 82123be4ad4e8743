"""What a language server found, in words for the model. Pure: its words are a stranger's, and bounded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

ERROR = 1  # severities of the protocol: 1 error, 2 warning, 3 information, 4 hint
MAX_SHOWN = 20
MAX_MESSAGE_CHARS = 300


def errors_text(path: str, diagnostics: Sequence[Any]) -> str:
    """The file's errors, one a line; empty when there are none.

    >>> print(errors_text("/workspace/a.py", [
    ...     {"severity": 1, "range": {"start": {"line": 2, "character": 4}}, "message": "no such name"},
    ...     {"severity": 2, "message": "a matter of taste"},
    ... ]))
    Errors in /workspace/a.py after this change:
    3:5 no such name
    """
    errors = [line for each in diagnostics if (line := _line(each))]
    if not errors:
        return ""
    left_out = [f"(and {len(errors) - MAX_SHOWN} more)"] if len(errors) > MAX_SHOWN else []
    return "\n".join([f"Errors in {path} after this change:", *errors[:MAX_SHOWN], *left_out])


def _line(diagnostic: object) -> str:
    """Empty for what is no error, or no diagnostic."""
    if not isinstance(diagnostic, dict):
        return ""
    fields = cast(Mapping[str, Any], diagnostic)
    message = fields.get("message")
    if not isinstance(message, str) or fields.get("severity", ERROR) != ERROR:
        return ""
    return _place(fields) + " ".join(message.split())[:MAX_MESSAGE_CHARS]


def _place(fields: Mapping[str, Any]) -> str:
    match fields.get("range"):
        case {"start": {"line": int(line), "character": int(column)}}:
            return f"{line + 1}:{column + 1} "
        case _:
            return ""
