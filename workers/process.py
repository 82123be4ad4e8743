"""What a process that serves a queue runs on."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")

# A task of a worker's makes a few hundred objects and drops them again. Python's 700 would look through them after
# every other task: a tenth of a worker's own time.
YOUNG_OBJECTS = 20_000


def run(main: Coroutine[Any, Any, Result]) -> Result:
    """Like `asyncio.run`, with a calmer garbage collector."""
    gc.freeze()  # what is imported is never garbage, and with all model providers it is much
    gc.set_threshold(YOUNG_OBJECTS, *gc.get_threshold()[1:])
    return asyncio.run(main)
