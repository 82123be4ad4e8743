"""Logging for every process of ours: structlog, on stderr, redacted before anything is rendered.

The only file that names structlog, which is imported for the first line that is logged: a command logs none mostly, and
would wait for it. `repo/` and `sandbox/` do not log: they return values and raise.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, cast

from .log_bridge import hear_libraries, hear_uncaught
from .log_lines import Fields, Repeats, error_in_short, in_words, on_one_line
from .redaction import redact_value, register_environment

if TYPE_CHECKING:
    from structlog.stdlib import BoundLogger as Logger

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}
Style = Literal["auto", "json", "text"]
AS_JSON: dict[Style, bool | None] = {"auto": None, "json": True, "text": False}


def configure(*, level: str = "info", json: bool | None = None) -> None:
    """Set up logging for this process, of its libraries, too. JSON lines unless stderr is a terminal; secrets of the
    environment are known."""
    register_environment(os.environ)
    as_json = not sys.stderr.isatty() if json is None else json
    _to_do[:] = [partial(_set_up, LEVELS[level], as_json)]
    hear_libraries(get_logger)


def configure_service(*, level: str, style: Style) -> None:
    """As `configure`, for a process that nobody looks at: what it does not catch is a line, too."""
    configure(level=level, json=AS_JSON[style])
    hear_uncaught(get_logger)


def get_logger(name: str) -> Logger:
    """A logger whose lines carry `part=name`. Event names are past tense: `task_claimed`, `lease_lost`."""
    return cast("Logger", _Lazy(name))


def bind(**fields: str | int) -> None:
    """Add fields (a trace id, a task id) to every later line of this asyncio task, and of those that it starts."""
    _bound.set({**_bound.get(), **fields})


class _Lazy:
    """A logger that takes its shape with its first line after each `configure`. Every task has two lines: what is made
    once need not be made for each."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._made: Logger | None = None
        self._shape = 0

    def __getattr__(self, method: str) -> Any:
        import structlog

        for set_up in list(_to_do):  # done before it is crossed off: another thread may be here, too
            set_up()
            _to_do.clear()
        if self._made is None or self._shape != _shapes[0]:
            self._made, self._shape = structlog.get_logger(part=self._name).bind(), _shapes[0]
        return getattr(self._made, method)


class _Stderr:
    """As it is when a line is written: a test's capture, say, may have put another in its place and closed it."""

    def msg(self, line: str) -> None:
        sys.stderr.write(f"{line}\n")  # one write: a line of another thread comes before or after it
        sys.stderr.flush()

    log = debug = info = warn = warning = error = err = critical = fatal = exception = failure = msg


def _set_up(level: int, as_json: bool) -> None:
    import structlog

    def one_of_many(_logger: Any, _method: str, event: Fields) -> Fields:
        if not repeats(event):
            raise structlog.DropEvent
        return event

    repeats = Repeats()
    processors = structlog.processors
    for_people = [
        *([] if level <= LEVELS["debug"] else [_plain(error_in_short)]),
        processors.format_exc_info,
        _redact,
        _plain(on_one_line),
        structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty() and "NO_COLOR" not in os.environ),
    ]
    # redacted last before the renderer: nothing is added after it
    for_programs = [processors.format_exc_info, _redact, processors.JSONRenderer(default=str)]
    structlog.configure(
        processors=[
            _plain(lambda fields: {**_bound.get(), **fields}),
            processors.add_log_level,
            one_of_many,
            processors.TimeStamper(fmt="iso", utc=True),
            *(for_programs if as_json else for_people),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_args: _Stderr(),
    )
    _shapes[0] += 1


def _set_up_for_others() -> None:
    """Who only uses our client, and has set up no logging, must not find our lines in their standard output."""
    import structlog

    if not structlog.is_configured():
        _set_up(LEVELS["warning"], not sys.stderr.isatty())


def _plain(change: Callable[[Fields], Fields]) -> Callable[[Any, str, Fields], Fields]:
    return lambda _logger, _method, event: change(event)


def _redact(_logger: Any, _method: str, event: Fields) -> Fields:
    return cast("Fields", redact_value(in_words(event)))


register_environment(os.environ)
# One variable for all fields: a task sets it once, and each that is set costs a queue of no-op tasks 4 us a task.
_bound: ContextVar[Mapping[str, str | int]] = ContextVar("muster_log_fields", default={})  # noqa: B039 - never changed
_shapes = [0]  # how often logging was set up
_to_do: list[Callable[[], None]] = [_set_up_for_others]  # before the next line
