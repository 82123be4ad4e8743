"""Make the sandbox image, with a registry or without one.

With a registry: pull Debian and build the Dockerfile. Without: bootstrap the same Debian from packages, import it,
and build the very same Dockerfile on that. Either way the result carries a hash of its inputs, and is built again
only when they change.
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from repo.temporary import temporary_folder

from ..errors import EngineUnavailable, ImageBuildFailed
from ..host_process import run
from . import DEFAULT_IMAGE

HERE = Path(__file__).parent
INPUTS = ("Dockerfile", "packages.txt", "requirements.txt")
SUITE = "bookworm"
REGISTRY_BASE = f"debian:{SUITE}-slim"
OWN_BASE = f"muster-base:{SUITE}"
CONTENT_LABEL = "muster.content"
# What Debian's own slim image leaves out: 70 MB that no command reads. Licences stay.
EXCLUDES = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*")
INCLUDES = ("/usr/share/doc/*/copyright",)
SLIM = (  # of mmdebstrap; what Debian's own slim image leaves out is in neither
    "--variant=minbase",
    *(f"--dpkgopt=path-exclude={path}" for path in EXCLUDES),
    *(f"--dpkgopt=path-include={path}" for path in INCLUDES),
)
# The wheels are for the image's Python, whatever Python runs this.
WHEEL_TARGET = (
    "--python-version",
    "3.11",
    "--implementation",
    "cp",
    "--abi",
    "cp311",
    "--abi",
    "abi3",
    "--abi",
    "none",
)
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64")
PULL_TIMEOUT_S = 120.0  # 30 MB; without a registry in reach the other way should begin soon
BUILD_TIMEOUT_S = 900.0  # a minute on a good line (measured); Debian's mirrors can be slow
TAIL_CHARS = 800  # the last ten lines of a failed build

Progress = Callable[[str], None]


async def build_image(tag: str = DEFAULT_IMAGE, *, on_progress: Progress = lambda line: None) -> str:
    """Build unless `tag` already has these inputs; the image's id. `ImageBuildFailed` says which step failed."""
    content = content_hash()
    if await label_of(tag) != content:
        base = await base_image(on_progress)
        with temporary_folder("image") as context:
            await fill_context(context, on_progress)
            await docker_build(context, base, tag, content, on_progress)
    return await id_of(tag)


async def id_of(tag: str) -> str:
    return (await run_step("docker", "image", "inspect", "--format", "{{.Id}}", tag, step="inspect the image")).strip()


def content_hash() -> str:
    digest = hashlib.sha256()
    for name in INPUTS:
        digest.update(name.encode() + b"\0" + (HERE / name).read_bytes() + b"\0")
    digest.update(repr((SUITE, EXCLUDES, INCLUDES)).encode())
    return digest.hexdigest()[:16]


async def base_image(on_progress: Progress) -> str:
    """A Debian to build on: pulled, or bootstrapped once and kept."""
    for present in (REGISTRY_BASE, OWN_BASE):
        if await _exists(present):
            return present
    on_progress(f"pulling {REGISTRY_BASE}")
    try:
        await run_step("docker", "pull", "--quiet", REGISTRY_BASE, step="pull the base image", timeout_s=PULL_TIMEOUT_S)
    except ImageBuildFailed:
        on_progress("no image registry in reach: bootstrapping the base from Debian packages (about 30 s)")
        await bootstrap_base(on_progress)
        return OWN_BASE
    return REGISTRY_BASE


async def bootstrap_base(on_progress: Progress) -> None:
    """Make `OWN_BASE` from Debian's packages, with root's rights and mmdebstrap."""
    require_mmdebstrap("No image registry can be reached, and ", ", or make a registry reachable")
    with temporary_folder("base") as folder:
        tar = str(folder / "base.tar")
        # No mirror is named: mmdebstrap then writes Debian's own sources into the tree, and nothing of this host's.
        await run_step("mmdebstrap", *SLIM, SUITE, tar, step="bootstrap Debian")
        on_progress("importing the base")
        await run_step("docker", "import", tar, OWN_BASE, step="import the base image")


def require_mmdebstrap(why: str = "", otherwise: str = "") -> None:
    if shutil.which("mmdebstrap") is None:
        raise ImageBuildFailed(
            f"{why}mmdebstrap, which would make the image from packages, is missing.",
            hint=f"install it (apt-get install mmdebstrap){otherwise}",
        )


async def fill_context(context: Path, on_progress: Progress) -> None:
    for name in INPUTS:
        shutil.copy(HERE / name, context / name)
    await download_wheels(context / "wheels", on_progress)


async def download_wheels(target: Path, on_progress: Progress) -> None:
    on_progress("downloading the wheels that requirements.txt pins")
    platforms = [option for platform in PLATFORMS for option in ("--platform", platform)]
    # fmt: off
    await run_step(
        sys.executable, "-P", "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:",
        "--require-hashes", *WHEEL_TARGET, *platforms, "--dest", str(target),
        "--requirement", str(HERE / "requirements.txt"),
        step="download the wheels",
    )
    # fmt: on


async def docker_build(context: Path, base: str, tag: str, content: str, on_progress: Progress) -> None:
    on_progress("building the image (about a minute)")
    # The host's network, because apt needs its resolver and routes; no container of ours gets it later.
    # fmt: off
    await run_step(
        "docker", "build", "--network", "host", "--build-arg", f"BASE={base}", "--label", f"{CONTENT_LABEL}={content}",
        "--tag", tag, str(context),
        step="build the image", env={"DOCKER_BUILDKIT": "0"},  # Debian's engine comes without buildx
    )
    # fmt: on
    on_progress(f"built {tag}")


async def _exists(tag: str) -> bool:
    return bool(await _image_ids(tag))


async def label_of(tag: str) -> str:
    if not await _exists(tag):
        return ""
    template = f'{{{{index .Config.Labels "{CONTENT_LABEL}"}}}}'
    return (await run_step("docker", "image", "inspect", "--format", template, tag, step="inspect the image")).strip()


async def _image_ids(tag: str) -> list[str]:
    return (await run_step("docker", "images", "--quiet", tag, step="list the images")).split()


async def run_step(*argv: str, step: str, timeout_s: float = BUILD_TIMEOUT_S, env: dict[str, str] | None = None) -> str:
    """The standard output. A failure raises with the tail of everything that the command said."""
    try:
        ended = await run(argv, timeout_s=timeout_s, env=env)
    except FileNotFoundError as missing:
        raise EngineUnavailable(
            f"{argv[0]} is not installed.", hint="install Docker (apt-get install docker.io)"
        ) from missing
    except TimeoutError as slow:
        raise ImageBuildFailed(f"Could not {step} within {timeout_s:.0f} s.") from slow
    if ended.exit_code != 0:
        tail = (ended.stdout + ended.stderr).decode(errors="replace").strip()[-TAIL_CHARS:]
        raise ImageBuildFailed(f"Could not {step}: {tail}", hint="`muster doctor` checks the engine and the network")
    return ended.stdout.decode(errors="replace")
