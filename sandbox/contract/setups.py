"""What setup leaves, and where it ends. No cases of `CASES`: they make images, which whoever runs them removes."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

from ..base import MIB, Command, SandboxSpec, Setup, SetupLimits
from ..errors import SetupFailed
from ..setup import REPOSITORY
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


BOUNDS = SetupLimits(max_bytes=8 * MIB, max_files=1008, kept=2)
MAY_WRITE, MAY_KEEP = "a setup may write 8.0 MiB and 1,008 files", "Setup leaves "
MANY = "import sys; [open(sys.argv[1] + str(n), 'x').close() for n in range(6000)]"
ENDS = {
    "head -c 20000000 /dev/zero > /opt/venv/large": f"left no room in .*: {MAY_WRITE}",
    "head -c 20000000 /dev/zero > /opt/venv/large || ! rm /opt/venv/large": "No space left on device",
    f'python3 -c "{MANY}" /opt/venv/': f"left no room in .*: {MAY_WRITE}",
    "head -c 70000000 /dev/zero > /dev/shm/large": "left no room in /dev/shm",
    "truncate -s 1T /opt/venv/holes": "Setup leaves 1024.0 GiB, more than the 8.0 MiB that a setup may keep",
    "truncate -s 1T holes.log": f"{MAY_KEEP}.* more than may be kept|cannot be fetched",
    "head -c 1000000 /dev/zero > 0.log; for n in $(seq 20); do ln 0.log $n.log; done": MAY_KEEP,
}
# One file of many names, another's name, a mode that shuts its own user out, a link that leads out, what is gone.
ODD_ROOT = """
cd /opt/venv; head -c 1000000 /dev/zero > 0; for n in $(seq 20); do ln 0 of-$n; done; rm bin/pip; ln -s /etc/passwd out
mkdir -p shut/in dark && echo x > shut/in/file && chmod 000 shut/in/file && chmod 500 shut/in; mv bin/pytest bin/ruff
echo x > dark/file; chmod 000 dark; mkfifo pipe; mknod white c 0 0; mkdir include/new; mv include moved
"""
LOOK_AT_ROOT = """
cd /opt/venv; stat -c %h of-1; readlink out; ls bin/pip bin/pytest include white 2>&1 | grep -c 'No such'
stat -c %a shut/in shut/in/file dark; head -1 bin/ruff; ls -d moved/new
"""
ROOT_FOUND = b"21\n/etc/passwd\n4\n550\n0\n0\n#!/opt/venv/bin/python3\nmoved/new\n"


async def setups_end_at_their_bounds(stage: Stage, key: str) -> None:
    """However they go beyond, many at once; nothing of them is kept."""
    project = await stage.project()
    assert project.checkout is not None
    setup = Setup(project.image, project.checkout, project.base, key, (), frozenset(), tenant=key, limits=BOUNDS)
    before = {each.name for each in await stage.driver.setups()}

    async def told(command: str) -> str:
        try:
            return await stage.driver.prepare_image(replace(setup, commands=(command,)))
        except SetupFailed as failure:
            assert failure.hint and ("No space" not in str(failure) or MAY_WRITE in failure.hint), failure
            return str(failure)

    for command, said in zip(ENDS, await asyncio.gather(*map(told, ENDS)), strict=True):
        assert re.search(ENDS[command], said), (command, said)
    assert {each.name for each in await stage.driver.setups() if each.name.startswith(REPOSITORY)} <= before


async def a_root_is_kept_as_setup_left_it(stage: Stage, key: str) -> str:
    """The image that it made comes back."""
    project = await stage.project()
    assert project.checkout is not None
    setup = Setup(project.image, project.checkout, project.base, key, (ODD_ROOT,), frozenset(), limits=BOUNDS)
    image = await stage.driver.prepare_image(setup)
    box = await stage.open(replace(project, image=image, read_only=True))
    found = (await box.exec(Command(LOOK_AT_ROOT))).output
    assert found == ROOT_FOUND, found
    return image


async def a_tenant_keeps_so_many_setups(stage: Stage, key: str) -> set[str]:
    """What it has used the longest ago goes, and nothing of another's. All that were made come back. (Nothing goes that
    may just be about to be opened: `setup.OPENING_S`.)"""
    project = await stage.project()
    assert project.checkout is not None
    setup = Setup(project.image, project.checkout, project.base, key, (), frozenset(), tenant=key, limits=BOUNDS)

    async def made(text: str, tenant: str = key) -> str:
        commands = (f"echo {text} > /opt/venv/mark",)
        return await stage.driver.prepare_image(replace(setup, commands=commands, tenant=tenant))

    theirs, first = await asyncio.gather(made("first", f"{key}-other"), made("first"))
    second = await made("second")
    assert await made("first") == first
    third = await made("third")
    every = {theirs, first, second, third}
    assert len(every) == 4
    assert every & {each.name for each in await stage.driver.setups()} == {theirs, first, third}
    return every
