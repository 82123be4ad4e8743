"""What goes wrong, as the errors of the protocol: our sentence with its hint is the message, which editors show."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from acp import RequestError

from envelope.errors import ErrorCode, Turn
from envelope.messages import ErrorInfo
from envelope.redaction import redact
from transport.errors import NotFound

from ..errors import code_of

INVALID_PARAMS, NOT_FOUND, INTERNAL = -32602, -32002, -32603
CALLERS = frozenset({ErrorCode.BAD_INPUT, ErrorCode.REPOSITORY, ErrorCode.REFUSED})
DOCTOR = "see what is missing with: muster doctor"

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger(__name__)


def request_error(error: Exception) -> RequestError:
    """Known errors say themselves what and what next; of others the class is named, and the log has the rest."""
    code = code_of(error)
    if code is None:
        log.error("something unforeseen", exc_info=error)
        return _error(INTERNAL, ErrorCode.INTERNAL, f"something unforeseen happened: {type(error).__name__}", DOCTOR)
    number = NOT_FOUND if isinstance(error, NotFound) else INVALID_PARAMS if code in CALLERS else INTERNAL
    return _error(number, code, str(error), getattr(error, "hint", ""))


def task_error(info: ErrorInfo) -> RequestError:
    """Of a task that could not be done, whoever is to blame."""
    number = INVALID_PARAMS if info.turn is Turn.CALLER else INTERNAL
    return _error(number, info.code, info.message, info.hint)


def _error(number: int, code: ErrorCode, message: str, hint: str) -> RequestError:
    sentence, hint = redact(message).removesuffix("."), redact(hint)
    text = f"{sentence}\nhint: {hint}" if hint else sentence
    return RequestError(number, text, {"code": code.value, "hint": hint})


def told(method: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """What the method raises becomes an error of the protocol."""

    @wraps(method)
    async def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except (RequestError, ConnectionError):
            raise
        except Exception as e:
            raise request_error(e) from e

    return inner
