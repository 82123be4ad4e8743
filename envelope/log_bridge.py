"""What libraries log, and what nobody caught, as lines of ours: with the task that it is about, without secrets."""

from __future__ import annotations

import logging
import sys
import threading
from types import TracebackType
from typing import Any, Protocol

LIBRARIES = logging.WARNING  # what they say below that is for those who write them


class GetLog(Protocol):
    def __call__(self, name: str) -> Any: ...


class _Bridge(logging.Handler):
    def __init__(self, get_log: GetLog) -> None:
        super().__init__()
        self._get_log = get_log

    def emit(self, record: logging.LogRecord) -> None:
        try:
            said = record.getMessage()
        except Exception:  # a library's own mistake; what it meant stands in its words
            said = str(record.msg)
        error = record.exc_info[1] if record.exc_info else None
        about = {"exc_info": error} if error is not None else {}
        log = self._get_log(record.name)
        at_least_warning = log.error if record.levelno >= logging.ERROR else log.warning
        at_least_warning(said, repeats_of=str(record.msg), **about)


def hear_libraries(get_log: GetLog) -> None:
    """From now on; a second call takes the first one's place."""
    root = logging.getLogger()
    for handler in [handler for handler in root.handlers if isinstance(handler, _Bridge)]:
        root.removeHandler(handler)
    root.addHandler(_Bridge(get_log))
    root.setLevel(LIBRARIES)
    logging.captureWarnings(capture=True)


def hear_uncaught(get_log: GetLog) -> None:
    """What ends a process or a thread is one line, too. An interrupt is somebody's wish, and says nothing."""
    log = get_log("process")

    def tell(kind: type[BaseException], error: BaseException | None, trace: TracebackType | None) -> None:
        if not issubclass(kind, KeyboardInterrupt | SystemExit):
            log.error("uncaught", exc_info=error or kind())

    sys.excepthook = tell
    threading.excepthook = lambda args: tell(args.exc_type, args.exc_value, args.exc_traceback)
