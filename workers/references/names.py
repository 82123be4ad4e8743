"""How references are written for a model: `file:src/a.py#1-20`, `symbol:src/a.py::Greeter.greet`, `task:…`. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import get_args

from envelope.messages import ContextRef

from ..errors import BadInput

# What fits on a screen; each costs a line of every model call.
MAX_REFS = 100
MAX_ID_CHARS = 1000
TYPES: tuple[str, ...] = get_args(ContextRef.model_fields["type"].annotation)
# `#L10-20` is how editors and forges write what we write `#10-20`.
_RANGE = re.compile(r"(?s)(.+)#(?:L?(\d{1,9})-L?(\d{1,9})|L(\d{1,9}))")
_ODD = re.compile(r"[\x00-\x1f\x7f]")


def name_of(ref: ContextRef) -> str:
    """
    >>> name_of(ContextRef(type="file", id="src/a.py", range=(1, 20)))
    'file:src/a.py#1-20'
    """
    return f"{ref.type}:{ref.id}" + (f"#{ref.range[0]}-{ref.range[1]}" if ref.range else "")


def parse_name(name: str) -> ContextRef | None:
    """The reference of this name; None when it is none.

    >>> parse_name("file:src/a.py#3-4"), parse_name("src/a.py")
    (ContextRef(type='file', id='src/a.py', range=(3, 4)), None)
    >>> parse_name("file:src/a.py#L3-L4") == parse_name("file:src/a.py#3-4")
    True
    """
    kind, _, rest = name.partition(":")
    if kind not in TYPES or not rest:
        return None
    found = _RANGE.fullmatch(rest)
    first, last = (int(found[n] or found[4]) for n in (2, 3)) if found else (0, 0)
    if found and 1 <= first <= last:
        return ContextRef.model_validate({"type": kind, "id": found[1], "range": (first, last)})
    return ContextRef.model_validate({"type": kind, "id": rest})


def check_refs(refs: Sequence[ContextRef]) -> None:
    """`BadInput` for what could not stand in a list, or be read by its name."""
    if len(refs) > MAX_REFS:
        raise BadInput(f"the request has {len(refs)} context_refs, more than {MAX_REFS}", hint="name a folder's index")
    for ref in refs:
        if not ref.id or len(ref.id) > MAX_ID_CHARS or _ODD.search(ref.id):
            raise BadInput(
                f"the context_ref {ref.id[:80]!r} is no name", hint=f"one line, 1 to {MAX_ID_CHARS} characters"
            )
        if ref.range and not 1 <= ref.range[0] <= ref.range[1]:
            raise BadInput(f"the range {ref.range} of {ref.id!r} is none", hint="say (first line, last line), from 1")


def listing(refs: Sequence[ContextRef]) -> str:
    """What the prompt says of them; empty when there are none."""
    if not refs:
        return ""
    names = "\n".join(f"- {name_of(ref)}" for ref in refs)
    return f"# References\nRead one with `read`, its name as `ref`, when you need it.\n{names}"
