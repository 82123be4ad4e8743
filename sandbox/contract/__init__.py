"""What every driver promises, as cases that anybody can run against one of theirs.

    import pytest
    from sandbox.contract import CASES, staged

    @pytest.mark.parametrize("name", CASES)
    async def test_my_driver_keeps_the_contract(name):
        async with MyDriver(...) as driver:
            async with staged(driver, "my-image") as stage:
                await CASES[name](stage)

The image needs python3, git, ripgrep, pytest, procps and a POSIX shell. `CASES` holds all; `cases_for(driver)` those
that a driver can be held to, which leaves out the limits that its `capabilities()` do not claim. A case fails with an
`AssertionError`, so run Python without `-O`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from types import ModuleType

from ..base import SandboxDriver
from . import commands, files, isolation, jobs, limits, patches, services
from .stage import Stage, make_project, staged

__all__ = ["CASES", "Case", "Stage", "cases_for", "make_project", "staged"]

Case = Callable[[Stage], Awaitable[None]]


def _cases(module: ModuleType) -> dict[str, Case]:
    """In the order in which they stand in the file."""
    found = inspect.getmembers(module, inspect.iscoroutinefunction)
    own = [(name, case) for name, case in found if case.__module__ == module.__name__ and not name.startswith("_")]
    return dict(sorted(own, key=lambda pair: pair[1].__code__.co_firstlineno))


_ABOUT_LIMITS = _cases(limits)

CASES: Mapping[str, Case] = {
    name: case
    for module in (commands, jobs, services, files, patches, isolation, limits)
    for name, case in _cases(module).items()
}


def cases_for(driver: SandboxDriver) -> list[str]:
    """The names of the cases that the driver claims to keep."""
    held = driver.capabilities().limits
    return [name for name in CASES if name not in _ABOUT_LIMITS or name.partition("__")[0] in held]
