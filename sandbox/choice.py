"""Which driver a worker uses. Named, or `auto`; never one that isolates less than was asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal, Protocol

from .base import SandboxDriver
from .bubblewrap import BubblewrapDriver
from .driver import DockerDriver
from .errors import EngineUnavailable
from .watching import UNWATCHED, SandboxWatch

DriverName = Literal["docker", "bubblewrap", "auto"]


class MakeDriver(Protocol):
    def __call__(
        self, state_dir: Path, owner: str, *, allow_private_egress: bool, watch: SandboxWatch
    ) -> SandboxDriver: ...


# In the order in which `auto` tries them: Docker's engine can be told to use gVisor or Kata, namespaces cannot.
DRIVERS: Mapping[str, MakeDriver] = {"docker": DockerDriver, "bubblewrap": BubblewrapDriver}
# See docs/decisions/0016-no-process-driver.md.
NO_PROCESS = (
    "there is no driver `process`, on purpose: commands beside the worker would have its files, its network and its"
    " processes; on a machine without an engine use bubblewrap"
)


async def choose_driver(
    name: DriverName,
    state_dir: Path,
    owner: str,
    *,
    allow_private_egress: bool = False,
    runtime: str = "",
    say: Callable[[str], Any] = lambda line: None,
    watch: SandboxWatch = UNWATCHED,
) -> SandboxDriver:
    """The driver of this name, which works here: `EngineUnavailable` if it does not.

    `runtime`: an OCI runtime that Docker's engine knows, such as runsc; then nothing else will do. `say` gets one line
    that tells what was chosen, and for `auto` why not the others.
    """
    if runtime and name == "bubblewrap":
        raise EngineUnavailable(f"Bubblewrap has no runtime {runtime}.", hint="use the driver docker, or no runtime")
    makers = {"docker": partial(DockerDriver, runtime=runtime)} if runtime else DRIVERS
    names = list(makers) if name == "auto" else [name]
    refusals: list[str] = []
    for each in names:
        driver = makers[each](state_dir, owner, allow_private_egress=allow_private_egress, watch=watch)
        try:
            what = await driver.check()
        except EngineUnavailable as refusal:
            await driver.close()
            if len(names) == 1:
                raise
            refusals.append(str(refusal))
        else:
            say(f"sandboxes by {each}: {what}" + "".join(f" (not by the one before: {why})" for why in refusals))
            return driver
    raise EngineUnavailable(" ".join(refusals), hint="start Docker, or install bubblewrap and run the worker as root")
