"""The setup phase: what a project's tests need is installed once, and kept as an image.

It runs as the sandbox's own user, without capabilities, with a network that ends at the package index, without secrets
and without an agent. Only the image's file system is kept: files that setup leaves in the workspace are not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from repo.lock import file_lock

from .base import Command, ExecResult, Limits, OnOutput, SandboxSpec
from .driver import ContainerDriver
from .errors import ImageMissing, SetupFailed
from .index import PackageIndex, host_index
from .opened import OpenSandbox

REPOSITORY = "muster-setup"
SETUP_LIMITS = Limits(lifetime_s=3900)
COMMAND_TIMEOUT_S = 1800.0  # a first install of a large project compiles things
TAIL_BYTES = 4000


async def ensure_setup(
    driver: ContainerDriver,
    *,
    image: str,
    checkout: Path,
    commit: str,
    repository_key: str,
    commands: Sequence[str],
    egress_hosts: Iterable[str] | None = None,
    on_output: OnOutput | None = None,
) -> str:
    """The tag of an image in which `commands` have run on `commit`; at once if it is there already.

    `egress_hosts` None: those of this host's package index. No commands: `image` itself. One process makes an image,
    the others wait for it. `SetupFailed` carries the tail of the command that failed, and nothing is kept.
    """
    if not commands:
        return image
    image_id = await driver.engine.image_id(image)
    if image_id is None:
        raise ImageMissing(f"The engine has no image {image}.", hint="run `muster sandbox build`")
    key = setup_key(image_id, repository_key, commit, commands)
    tag = f"{REPOSITORY}:{key}"
    async with file_lock(driver.state_dir / "locks" / f"setup-{key}.lock"):
        if await driver.engine.image_id(tag) is None:
            index = await host_index()
            if egress_hosts is not None:
                index = replace(index, hosts=frozenset(egress_hosts))
            await _make(
                driver,
                tag,
                SandboxSpec(image, checkout, limits=SETUP_LIMITS, egress=index.hosts),
                index,
                commands,
                on_output,
            )
    return tag


def setup_key(image_id: str, repository_key: str, commit: str, commands: Sequence[str]) -> str:
    parts = json.dumps([image_id, repository_key, commit, list(commands)])
    return hashlib.sha256(parts.encode()).hexdigest()[:32]


async def _make(
    driver: ContainerDriver,
    tag: str,
    spec: SandboxSpec,
    index: PackageIndex,
    commands: Sequence[str],
    on_output: OnOutput | None,
) -> None:
    async with await driver.open(spec, writable_root=True, ca_bundle=index.ca_bundle) as sandbox:
        for command in commands:
            await _run(sandbox, command, index, on_output)
        await sandbox.kill_all()  # what still runs would be committed in the middle of a write
        await driver.engine.commit(sandbox.id, tag, {"Labels": {"muster.setup": tag}})


async def _run(sandbox: OpenSandbox, command: str, index: PackageIndex, on_output: OnOutput | None) -> None:
    """The index is in the environment of this command only, so that nothing of it is kept."""
    result: ExecResult = await sandbox.exec(Command(command, env=index.env, timeout_s=COMMAND_TIMEOUT_S), on_output)
    if result.exit_code == 0 and not result.timed_out:
        return
    how = (
        f"took longer than {COMMAND_TIMEOUT_S:.0f} s"
        if result.timed_out
        else f"ended with exit code {result.exit_code}"
    )
    tail = result.output[-TAIL_BYTES:].decode(errors="replace")
    refused = sandbox.refused_hosts
    hint = f"it asked for {', '.join(sorted(refused))}, which setup may not reach" if refused else ""
    raise SetupFailed(f"The setup command `{command}` {how}.", output=tail, hint=hint)
