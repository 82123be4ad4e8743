"""Logging for every process of ours: structlog, on stderr, redacted before anything is rendered.

The only file that names structlog. `repo/` and `sandbox/` do not log: they return values and raise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import MutableMapping
from typing import Any, cast

import structlog

from .redaction import redact_value, register_environment

Logger = structlog.stdlib.BoundLogger

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(*, level: str = "info", json: bool | None = None) -> None:
    """Set up logging for this process. JSON lines unless stderr is a terminal; secrets of the environment are known."""
    register_environment(os.environ)
    as_json = not sys.stderr.isatty() if json is None else json
    renderer = structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _redact,  # last before the renderer: nothing is added after it
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(LEVELS[level]),
        # stderr as it is when a line is written: a test's capture, say, may have put another in its place and closed it
        logger_factory=lambda *_args: structlog.PrintLogger(sys.stderr),
    )


def get_logger(name: str) -> Logger:
    """A logger whose lines carry `part=name`. Event names are past tense: `task_claimed`, `lease_lost`."""
    return cast(Logger, structlog.get_logger(part=name))


def bind(**fields: str | int) -> None:
    """Add fields (a trace id, a task id) to every later line of this asyncio task."""
    structlog.contextvars.bind_contextvars(**fields)


def _redact(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    return cast(MutableMapping[str, Any], redact_value(dict(event)))


# A program that only uses our client, and has set up no logging, must not find our lines in its standard output.
if not structlog.is_configured():
    configure(level="warning")
