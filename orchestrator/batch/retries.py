"""What a batch does once more by itself, after how it failed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

from envelope.errors import ErrorCode

from ..driver import Driver, Ended, Work, completed
from .failures import TRIES


def is_worth_another_try(ended: Ended) -> bool:
    """By its first error. A driver that was restarted meets the tries of the one before it, and counts them again."""
    error = next(iter(ended.result.errors), None)
    if completed(ended.result) or error is None:
        return False
    return ended.work.tries < TRIES.get(error.code, 1)


def is_short_of_money(ended: Ended) -> bool:
    return ended.result.errors[0].code is ErrorCode.BUDGET


async def settled(driver: Driver, works: Sequence[Work]) -> AsyncGenerator[Ended]:
    """Each work once, when it came to something, or no other try is worth it."""
    while works:
        again: list[Work] = []
        async with aclosing(driver.run(works)) as endings:
            async for ended in endings:
                if is_worth_another_try(ended):
                    again.append(ended.work.again(ended.result.task_id))
                else:
                    yield ended
        works = again
