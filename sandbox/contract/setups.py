"""What setup leaves in a workspace. No case of `CASES`: it makes an image, which whoever runs it removes."""

from __future__ import annotations

from dataclasses import replace

from ..base import Command, SandboxSpec, Setup
from .stage import Stage

SETUP = (
    "mkdir -p lib/made && echo setup > lib/made/a.log && echo setup > b.log && echo setup > c.log",
    "printf '#!/bin/sh\\necho runs\\n' > lib/run.log && chmod 755 lib/run.log && ln -s made/a.log lib/link.log",
    "echo setup > notes.txt && echo setup > src/other.py && mkdir __pycache__ && touch __pycache__/x.pyc",
)
LOOK = "cat lib/link.log b.log; lib/run.log; ls notes.txt __pycache__ 2>&1 | grep -c 'No such'; git status --short"
FOUND = b"setup\nsetup\nruns\n2\n"
# It is no longer ignored, nor what it was; then what git has to be asked about the whole of.
CHANGE = "echo > .gitignore; echo agent > b.log; rm c.log; echo agent > lib/own.log; echo y = 2 > src/app.py"
ODD = f"{CHANGE}; mkfifo odd"
CHANGED = [".gitignore", "b.log", "lib/own.log", "src/app.py"]


async def setup_files_are_in_every_sandbox_and_in_no_patch(stage: Stage, key: str) -> str:
    """The image that it made comes back."""
    project = await stage.project()
    assert project.checkout is not None
    setup = Setup(project.image, project.checkout, project.base, key, SETUP, frozenset())
    image = await stage.driver.prepare_image(setup)
    assert await stage.driver.prepare_image(setup) == image
    spec = replace(project, image=image)
    for change in (CHANGE, ODD):
        box = await stage.open(spec)
        found = await box.exec(Command(LOOK))
        assert found.output == FOUND, found.output
        assert (await box.snapshot()).empty
        await box.exec(Command(change))
        patch = await box.patch(lambda _: True)
        assert [each.path for each in patch.files] == CHANGED, patch.files
    for again in (spec, replace(spec, read_only=True)):
        found = await (await stage.open(again)).exec(Command(LOOK))
        assert found.output == FOUND, found.output
    for again in (spec, replace(spec, read_only=True)):  # a gate's sandbox, which gets what the patch has and no more
        box = await stage.open(again)
        await box.apply(patch.diff, as_base=True)
        assert (await box.exec(Command("cat b.log c.log lib/own.log"))).output == b"agent\nsetup\nagent\n"
        assert (await box.snapshot()).empty
    other = await stage.open(SandboxSpec(image))
    assert (await other.exec(Command("ls -A"))).output == b""
    return image
