"""Make the sandbox image, with a registry or without one.

With a registry: pull Debian and build the Dockerfile. Without: bootstrap the same Debian from packages, import it,
and build the very same Dockerfile on that. Either way the result carries a hash of its inputs, and is built again
only when they change.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Origin:
    """The Debian that the builder wants to stand on, so that a build can be repeated; by default the newest.

    `image` is an image by its digest. `archive` and `snapshot` are Debian's archive as it was at that time, for the
    base and for all packages on it: a tree made from it keeps it as its only source.
    """

    image: str = ""
    archive: str = ""
    snapshot: str = ""

    @classmethod
    def from_environment(cls) -> Origin:
        image, archive, snapshot = (
            os.environ.get(f"MUSTER_BUILD_{name}", "").strip() for name in ("BASE", "ARCHIVE", "SNAPSHOT")
        )
        if image and snapshot:
            raise ImageBuildFailed(
                "MUSTER_BUILD_BASE and MUSTER_BUILD_SNAPSHOT both say what to build on.",
                hint="set one: an image by its digest, or a day of Debian's archive",
            )
        if image and not re.fullmatch(r"[^\s@-][^\s@]*@sha256:[0-9a-f]{64}", image):
            raise ImageBuildFailed(
                f"MUSTER_BUILD_BASE is no image by its digest: {image}", hint="NAME@sha256:… as your registry gives it"
            )
        if snapshot and not re.fullmatch(r"\d{8}T\d{6}Z", snapshot):
            raise ImageBuildFailed(
                f"MUSTER_BUILD_SNAPSHOT is no time: {snapshot}", hint="write it as 20261101T000000Z, in UTC"
            )
        if bool(snapshot) != bool(archive) or (archive and not re.fullmatch(r"https?://[^\s\[\]]+", archive)):
            raise ImageBuildFailed(
                "MUSTER_BUILD_SNAPSHOT and MUSTER_BUILD_ARCHIVE go together.",
                hint="MUSTER_BUILD_ARCHIVE is the URL below which debian/TIME and debian-security/TIME are",
            )
        return cls(image, archive.rstrip("/"), snapshot)

    def __str__(self) -> str:
        return f"{self.image}{self.archive} {self.snapshot}".strip()

    @property
    def own_base(self) -> str:
        return f"{OWN_BASE}-{self.snapshot.lower()}" if self.snapshot else OWN_BASE

    def mmdebstrap_options(self) -> tuple[str, ...]:
        # apt in the tree cannot check a certificate before it has installed them
        return ("--include=ca-certificates",) if self.archive.startswith("https:") else ()

    def mmdebstrap_sources(self) -> tuple[str, ...]:
        """None without a snapshot: mmdebstrap then writes Debian's own into the tree, and nothing of this host's."""
        if not self.snapshot:
            return ()
        suites = {SUITE: "debian", f"{SUITE}-updates": "debian", f"{SUITE}-security": "debian-security"}
        # what a Release file says of its last day is long over in a snapshot; its signature is still checked
        return tuple(
            f"deb [check-valid-until=no] {self.archive}/{part}/{self.snapshot} {suite} main"
            for suite, part in suites.items()
        )


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
    digest.update(repr((SUITE, EXCLUDES, INCLUDES)).encode() + str(Origin.from_environment()).encode())
    return digest.hexdigest()[:16]


async def base_image(on_progress: Progress) -> str:
    """A Debian to build on: pulled and named by its digest, or bootstrapped once and kept."""
    origin = Origin.from_environment()
    wanted = (origin.image,) if origin.image else (origin.own_base,) if origin.snapshot else (REGISTRY_BASE, OWN_BASE)
    for present in wanted:
        if await _exists(present):
            return await _pinned(present)
    if not origin.snapshot:
        on_progress(f"pulling {wanted[0]}")
        try:
            await run_step("docker", "pull", "--quiet", wanted[0], step="pull the base image", timeout_s=PULL_TIMEOUT_S)
            return await _pinned(wanted[0])
        except ImageBuildFailed:
            if origin.image:
                raise
            on_progress("no image registry in reach")
    on_progress("bootstrapping the base from Debian packages (about 30 s)")
    await bootstrap_base(on_progress)
    return origin.own_base


async def _pinned(base: str) -> str:
    """The base by its digest, when it came from a registry: a tag may be another image at the next layer."""
    digests = await run_step("docker", "image", "inspect", "--format", "{{json .RepoDigests}}", base, step="inspect")
    return next(iter(json.loads(digests)), base)


def base_labels(base: str) -> dict[str, str]:
    name, _, digest = base.partition("@")
    labels = {"org.opencontainers.image.base.name": name}
    return labels | {"org.opencontainers.image.base.digest": digest} if digest else labels


async def bootstrap_base(on_progress: Progress) -> None:
    """Make the base from Debian's packages, with root's rights and mmdebstrap."""
    origin = Origin.from_environment()
    if origin.snapshot:
        require_mmdebstrap()
    else:
        require_mmdebstrap("No image registry can be reached, and ", ", or make a registry reachable")
    with temporary_folder("base") as folder:
        tar = str(folder / "base.tar")
        await run_step(
            *("mmdebstrap", *SLIM, *origin.mmdebstrap_options(), SUITE, tar, *origin.mmdebstrap_sources()),
            step="bootstrap Debian",
        )
        on_progress("importing the base")
        await run_step("docker", "import", tar, origin.own_base, step="import the base image")


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
    labels = {CONTENT_LABEL: content, **base_labels(base)}
    options = [word for name, value in labels.items() for word in ("--label", f"{name}={value}")]
    # The host's network, because apt needs its resolver and routes; no container of ours gets it later.
    await run_step(
        *("docker", "build", "--network", "host", "--build-arg", f"BASE={base}", *options, "--tag", tag, str(context)),
        step="build the image",
        env={"DOCKER_BUILDKIT": "0"},  # Debian's engine comes without buildx
    )
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
