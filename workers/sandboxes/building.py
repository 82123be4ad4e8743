"""What `muster sandbox` needs beside a driver: building images, and telling tasks' sandboxes apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.base import Finding, Known, SandboxDriver
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.choice import DriverName, choose_driver
from sandbox.errors import SandboxError
from sandbox.first_use import try_image
from sandbox.image import CC_IMAGE, DEFAULT_IMAGE
from sandbox.image.build import build_image
from sandbox.image.root import build_root
from sandbox.image.variants import build_cc, build_own
from transport.state_folder import private_folder

from ..errors import BadInput
from ..settings import WorkerSettings

OWNER = "muster-sandbox"
Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Order:
    """What to build. `tag` empty: its usual name; `driver` None: as the settings say."""

    tag: str
    cc: bool
    file: Path | None
    driver: DriverName | None


async def build_and_try(order: Order, settings: WorkerSettings, on_progress: Progress) -> str:
    """Its name, and its id or folder."""
    driver = await _driver(order, settings)
    try:
        image = order.tag or (CC_IMAGE if order.cc else DEFAULT_IMAGE)
        built = await _build(order, image, driver, on_progress)
        for lack in await try_image(driver, image):
            on_progress(lack)
    finally:
        await driver.close()
    return f"{image} {built}"


async def _driver(order: Order, settings: WorkerSettings) -> SandboxDriver:
    name = order.driver or settings.sandbox_driver
    runtime = "" if name == "bubblewrap" else settings.sandbox_runtime
    return await choose_driver(name, private_folder(settings.state_dir), OWNER, runtime=runtime)


async def _build(order: Order, image: str, driver: SandboxDriver, on_progress: Progress) -> str:
    if isinstance(driver, BubblewrapDriver):
        root = driver.roots.root_of(image)
        await build_root(root, cc=order.cc, on_progress=on_progress)
        return str(root)
    if order.file is not None:
        return await build_own(order.file, image, on_progress=on_progress)
    return await (build_cc if order.cc else build_image)(image, on_progress=on_progress)


async def image_finding(driver: SandboxDriver, settings: WorkerSettings) -> Finding:
    try:
        image_id = await driver.require_image(settings.image)
    except SandboxError as missing:
        return Finding("image", str(missing), missing.hint)
    return Finding("image", f"{settings.image} {image_id.removeprefix('sha256:')[:12]}")


def sandbox_of(words: str, known: Sequence[Known]) -> str:
    """The one sandbox of a task, by the task's id or the start of it, or by the sandbox's own; `BadInput` for none."""
    found = [each for each in known if words and _is_meant(each, words)]
    if len(found) != 1:
        many = f"{len(found)} sandboxes of tasks begin with {words!r}"
        raise BadInput(
            many if found else f"no sandbox of a task {words!r} stands on this machine",
            hint="`muster sandbox list` shows those that do; of a task that has ended, `muster task diff` has the work",
        )
    return found[0].sandbox_id


def _is_meant(known: Known, words: str) -> bool:
    return known.sandbox_id == words or known.labels.get("task", "").startswith(words)
