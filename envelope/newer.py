"""What an older reader makes of a newer sender's words.

New fields and new kinds of event are no fault in the first place (`wire.py`, `events.py`). What is left are the lists
of words that a schema closes. Nobody may lose a result, or the rest of a message, over one word that came later; but a
request, or a state of the life cycle, that is not understood is refused: to guess would be worse.
"""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from .errors import ErrorCode, Turn
from .events import UnknownEvent

_WORD_FAULTS = ("enum", "literal_error")


def reword(fields: dict[str, Any], error: ValidationError) -> bool:
    """Replace newer words in a message's fields, in place, by what this reader knows; False when it may not be done.

    An event that says something new becomes an `UnknownEvent`, whole. A new code of an error becomes `unknown`, with
    the sender's own word before its message; whether a retry helps stands beside it and is kept.
    """
    return all(
        fault["type"] in _WORD_FAULTS and isinstance(fault["input"], str) and _replace(fields, fault["loc"])
        for fault in error.errors(include_url=False)
    )


def _replace(fields: dict[str, Any], place: tuple[int | str, ...]) -> bool:
    match place:
        case ("events", int(at), *_):
            fields["events"][at] = UnknownEvent.model_validate(fields["events"][at])
        case ("errors", int(at), "code"):
            info = fields["errors"][at]
            info["message"] = f"{info['code']}: {info.get('message', '')}"
            info["code"] = ErrorCode.UNKNOWN
        case ("errors", int(at), "turn"):
            fields["errors"][at]["turn"] = Turn.MUSTER
        case ("patch", "files", int(at), "status"):
            fields["patch"]["files"][at]["status"] = "M"  # it was changed; the diff says how
        case _:
            return False
    return True
