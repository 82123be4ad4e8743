"""An image of the user's own is tried before the first task gets it: a small part of the contract, once for each id."""

from __future__ import annotations

import hashlib
from pathlib import Path

from repo.errors import RepoError
from repo.lock import file_lock

from .base import SandboxDriver
from .contract import CASES, Stage, staged
from .errors import DiskFull, EngineUnavailable, ImageUnfit, SandboxError
from .image import OWN_IMAGES

NEEDED = {"git": "install it: patches of subagents and of tasks that go on are applied with it"}
USEFUL = {"rg": "it has no ripgrep: `grep` and `glob` of agents will fail"}
# In one sandbox and a second one over a project: commands, files, patches. A second or two, and no more than an image
# can spoil; what the driver alone is answerable for is its own tests' affair.
TRIED = (
    "the_exit_code_is_what_a_shell_would_say",
    "standard_input_folder_and_environment_reach_the_command",
    "a_time_out_keeps_what_was_said",
    "what_was_written_is_read_back",
    "a_patch_says_what_changed_and_applies_to_the_base",
)
SEARCHED = "grep_gives_path_line_and_text"  # where there is a ripgrep; before something else lies in the workspace
HINT = "see which images can be sandboxes in docs/sandbox.md, or use the one that `muster sandbox build` makes"


async def require_fit(driver: SandboxDriver, image: str, notes: Path) -> tuple[str, ...]:
    """What the image lacks that most tasks want, in words; `ImageMissing`, `ImageUnfit` when nothing can be done in it.

    `notes` is a folder that all processes of this host share: one of them tries an image, the others wait for it.
    """
    image_id = await driver.require_image(image)
    if image in OWN_IMAGES:  # which their build has tried
        return ()
    tried = hashlib.sha256(repr((driver.name, image_id, SEARCHED, TRIED)).encode()).hexdigest()[:32]
    note = notes / f"{tried}.fit"
    async with file_lock(note.with_suffix(".lock")):
        if not note.exists():
            note.write_text("\n".join(await try_image(driver, image)))
        return tuple(note.read_text().splitlines())


async def try_image(driver: SandboxDriver, image: str) -> tuple[str, ...]:
    """See `require_fit`; now, whatever was noted."""
    async with staged(driver, image) as stage:
        lacking = await _lacking(stage)
        if missing := NEEDED.keys() & lacking:
            name = min(missing)
            raise ImageUnfit(f"The image {image} has no {name}.", hint=NEEDED[name])
        for name in TRIED if "rg" in lacking else (SEARCHED, *TRIED):
            try:
                await CASES[name](stage)
            except (EngineUnavailable, DiskFull):
                raise
            except (AssertionError, SandboxError, RepoError) as error:
                what = f"The image {image} is no good as a sandbox: {name.replace('_', ' ')} does not hold"
                raise ImageUnfit(f"{what} ({str(error)[:300]}).", hint=HINT) from error
    return tuple(USEFUL[name] for name in sorted(lacking))


async def _lacking(stage: Stage) -> set[str]:
    """The programs of `NEEDED` and `USEFUL` that a command does not find."""
    names = (*NEEDED, *USEFUL)
    said = await stage.run(f"for name in {' '.join(names)}; do command -v $name > /dev/null || echo $name; done")
    return set(said.output.decode(errors="replace").split()) & set(names)
