"""The default image as a folder, for bubblewrap on a machine without an engine: the same packages and wheels."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from repo.temporary import temporary_folder

from ..uids import AGENT_UID
from .build import (
    HERE,
    SLIM,
    SUITE,
    Origin,
    Progress,
    content_hash,
    download_wheels,
    require_mmdebstrap,
    run_step,
)
from .variants import CC_PACKAGES, cc_hash

CONTENT, FORMER = ".content", ".former"  # beside the folder: what it was made from, and the one before it
# As the Dockerfile has it. `$1` is the new root; what stands in MUSTER_BUILD is this host's.
HOOKS = (
    'cp -r "$MUSTER_BUILD" "$1/tmp/build"',
    f'chroot "$1" useradd --uid {AGENT_UID} --user-group --create-home --shell /bin/bash agent',
    'chroot "$1" python3 -m venv /opt/venv',
    'chroot "$1" env -i PATH=/opt/venv/bin:/usr/bin:/bin pip install --quiet --no-cache-dir --no-index'
    " --find-links /tmp/build --require-hashes -r /tmp/build/requirements.txt",
    'chroot "$1" chown -R agent:agent /opt/venv',
    'rm -rf "$1/tmp/build" "$1/etc/resolv.conf" "$1/etc/hostname"',
    'rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/* "$1"/var/log/apt',
)


async def build_root(target: Path, *, cc: bool = False, on_progress: Progress = lambda line: None) -> None:
    """Make the folder `target` unless it is there and made from these inputs, with root's rights.

    The one that it replaces stays beside it until the next build: sandboxes may still stand on it.
    """
    if _is_made_from(target, root_hash(cc)):
        return
    require_mmdebstrap()
    part, former = (target.with_name(f"{target.name}{end}") for end in (".part", FORMER))
    for old in (part, former):
        shutil.rmtree(old, ignore_errors=True)
    part.parent.mkdir(parents=True, exist_ok=True)
    try:
        await _bootstrap(part, cc, on_progress)
        _put(part, target, former, root_hash(cc))
    finally:
        shutil.rmtree(part, ignore_errors=True)
    on_progress(f"built {target}")


def _is_made_from(root: Path, content: str) -> bool:
    made_from = root.with_name(f"{root.name}{CONTENT}")
    return root.is_dir() and made_from.is_file() and made_from.read_text() == content


def _put(part: Path, target: Path, former: Path, content: str) -> None:
    part.chmod(0o755)
    if target.exists():
        target.rename(former)
    part.rename(target)
    target.with_name(f"{target.name}{CONTENT}").write_text(content)


def root_hash(cc: bool) -> str:
    own = hashlib.sha256(f"{content_hash()}{HOOKS}".encode()).hexdigest()[:16]
    return cc_hash(own) if cc else own


async def _bootstrap(root: Path, cc: bool, on_progress: Progress) -> None:
    packages = [name for file in ("packages.txt", *([CC_PACKAGES] if cc else [])) for name in _lines(HERE / file)]
    with temporary_folder("root") as folder:
        await download_wheels(folder, on_progress)
        shutil.copy(HERE / "requirements.txt", folder)
        on_progress("bootstrapping Debian from its packages (a minute or two)")
        await run_step(
            *("mmdebstrap", *SLIM, f"--include={','.join(packages)}"),
            *(f"--customize-hook={hook}" for hook in HOOKS),
            *(SUITE, str(root), *Origin.from_environment().mmdebstrap_sources()),
            step="bootstrap Debian",
            env={"MUSTER_BUILD": str(folder)},
        )


def _lines(file: Path) -> list[str]:
    return file.read_text().split()
