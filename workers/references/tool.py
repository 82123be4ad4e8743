"""The tool `read` of a task that refers to something."""

from __future__ import annotations

from collections.abc import Mapping

from transport.base import Transport

from ..delivery.attempt import Attempt
from ..sandboxes.base_files import BaseFiles
from ..tools.base import Tool
from ..tools.read_reference import ReadReference
from ..tools.webfetch import WebFetch
from ..web.access import WebAccess
from .sources import Sources


def reading_references(
    tools: Mapping[str, Tool], attempt: Attempt, transport: Transport, web: WebAccess
) -> dict[str, Tool]:
    """The tools, of which `read` knows the request's references; as they are where there is nothing to know."""
    if not attempt.request.context_refs or "read" not in tools:
        return dict(tools)
    base, check = BaseFiles(attempt.sandbox), attempt.guard.check
    sources = Sources(attempt.request, transport, base, attempt.sandbox.opened, check)
    return {**tools, "read": ReadReference(tools["read"], sources, WebFetch(check, web.policy))}
