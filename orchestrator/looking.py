"""What work that only looks may do, and how more is refused. `read_only.py` makes such work of any other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from envelope.errors import ErrorCode
from envelope.scope import Scope, narrow, offers

from .errors import OrchestratorError
from .settings import Settings
from .submit import RECIPE_SCOPE

# `bash` is on a read-only mount, in a sandbox without a network. What a subagent may do is narrowed by the same rule.
READ_SCOPE: Scope = (*RECIPE_SCOPE, "task:**", "skill:**", "todowrite:*", "todoread:*", "plan_update:*")
STEERS = "work that may write would be steered"
PUBLISHES = "something would be published"
GATES = "--gate would prove a change"
SETS_UP = "--setup would run commands with a way to the package index"
WHO_MAY = "leave it out, or have it done by a job that no stranger can start"


class WouldWrite(OrchestratorError):
    code = ErrorCode.REFUSED


def refuse_write(what: str, hint: str = WHO_MAY) -> NoReturn:
    raise WouldWrite(f"this is read-only, and {what}", hint=hint)


def require_writing(settings: Settings, what: str) -> None:
    if settings.read_only:
        refuse_write(what)


def require_looking(asked: Mapping[str, object], allow: Scope) -> None:
    """`WouldWrite` for what is asked for by name, by what it would do; what an agent may do by itself is narrowed
    later."""
    for what in (what for what, is_asked in asked.items() if is_asked):
        refuse_write(what)
    narrow(READ_SCOPE, allow)


def is_read_only(scope: Scope) -> bool:
    return not offers(scope, "edit")
