"""Which shards a batch does once more by itself, after the class of their failure. Pure."""

from __future__ import annotations

from envelope.errors import ErrorCode

from ..driver import Ended, completed
from .failures import NO_MORE_TIME, TRIES, class_of


def is_worth_another_try(ended: Ended) -> bool:
    """By its first error; a second try is known by the task that it repeats, also to a driver that was restarted."""
    error = next(iter(ended.result.errors), None)
    if completed(ended.result) or error is None:
        return False
    if error.code in NO_MORE_TIME:
        return False
    tries = 1 if ended.work.request.retry_of is None else 2
    return error.retryable and tries < TRIES[class_of(error.code)]


def is_short_of_money(ended: Ended) -> bool:
    return ended.result.errors[0].code is ErrorCode.BUDGET
