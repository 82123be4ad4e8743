"""What a session has planned, found again in its history: each change of it left the whole in its result. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envelope.plan import Plan

from ..permissions.guard import PLAN_FILE
from ..tools.base import ToolResult
from ..tools.plan_changes import listed
from ..tools.plan_file import PLAN_NAME
from ..tools.plan_update import PLAN, PLAN_UPDATE
from .session import Session


def plan_text_of(session: Session) -> str:
    """Of the plan file; empty when nothing was written."""
    return next((metadata[PLAN_FILE] for metadata in _newest_first(session) if PLAN_FILE in metadata), "")


def plan_name_of(session: Session) -> str:
    """The path that the plan file was last written by; empty when nothing was written."""
    return next((metadata[PLAN_NAME] for metadata in _newest_first(session) if PLAN_NAME in metadata), "")


def plan_of(session: Session) -> Plan | None:
    """The living plan, with what was done in a turn that is still open."""
    found = next((metadata[PLAN] for metadata in _newest_first(session) if PLAN in metadata), None)
    return session.given_plan if found is None else Plan.model_validate(found)


def told_plan(session: Session) -> str:
    """The living plan as the model was last told it."""
    told = (one.content for one in reversed(session.messages) if one.name == PLAN_UPDATE and not one.is_error)
    return next(told, "") or (listed(session.given_plan) if session.given_plan else "")


def _newest_first(session: Session) -> Iterator[Mapping[str, Any]]:
    for answered in reversed(session.open_turn):
        if isinstance(answered.result, ToolResult):
            yield answered.result.metadata
    yield from (message.metadata for message in reversed(session.messages) if message.metadata)
