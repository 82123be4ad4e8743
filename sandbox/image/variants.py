"""Images that stand on others: the default one with compilers, and what a user's own Dockerfile makes."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from repo.temporary import temporary_folder

from ..errors import ImageBuildFailed
from . import CC_IMAGE, DEFAULT_IMAGE
from .build import HERE, Progress, build_image, docker_build, id_of, label_of, run_step

CC_DOCKERFILE, CC_PACKAGES = "cc.Dockerfile", "packages-cc.txt"


async def build_cc(tag: str = CC_IMAGE, *, on_progress: Progress = lambda line: None) -> str:
    """Build unless `tag` stands on the default image as it is now, which is built first; the image's id."""
    base_id = await build_image(DEFAULT_IMAGE, on_progress=on_progress)
    content = cc_hash(base_id)
    if await label_of(tag) != content:
        with temporary_folder("image") as folder:
            shutil.copy(HERE / CC_DOCKERFILE, folder / "Dockerfile")
            shutil.copy(HERE / CC_PACKAGES, folder)
            await docker_build(folder, DEFAULT_IMAGE, tag, content, on_progress)
    return await id_of(tag)


def cc_hash(base: str) -> str:
    digest = hashlib.sha256(base.encode())
    for name in (CC_DOCKERFILE, CC_PACKAGES):
        digest.update(b"\0" + (HERE / name).read_bytes())
    return digest.hexdigest()[:16]


def _require_file(dockerfile: Path) -> None:
    if not dockerfile.is_file():
        raise ImageBuildFailed(f"There is no Dockerfile {dockerfile}.", hint="name the file itself, not its folder")


async def build_own(dockerfile: Path, tag: str, *, on_progress: Progress = lambda line: None) -> str:
    """What the user's Dockerfile makes of the folder that it stands in; the image's id."""
    _require_file(dockerfile)
    on_progress(f"building {tag} from {dockerfile}")
    await run_step(
        *("docker", "build", "--file", str(dockerfile), "--tag", tag, str(dockerfile.parent)), step=f"build {tag}"
    )
    return await id_of(tag)
