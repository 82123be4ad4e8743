"""Build the images of orchestrator and workers; nothing when they are there already. Then the bills of materials, of
the sandbox's image too.

Prints each image's name and id.

    python scripts/images.py [orchestrator] [worker]

Wheels come from the host's own index by the hashes of requirements/runtime.lock; the base is what the sandbox's image
stands on. Each image carries a hash of its inputs; beside that Docker's own layers are reused: a change of our sources
builds our own wheel and copies it, and only another lock file takes minutes.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path

from packaging.markers import Marker

from sandbox.errors import SandboxError
from sandbox.image import DEFAULT_IMAGE
from sandbox.image.build import (
    CONTENT_LABEL,
    PLATFORMS,
    WHEEL_TARGET,
    Origin,
    base_image,
    base_labels,
    id_of,
    label_of,
    run_step,
)

ROOT = Path(__file__).parent.parent
IMAGES = ("orchestrator", "worker")
BUILT = ROOT / "build" / "images"  # wheels and bills of materials
LOCK = ROOT / "requirements" / "runtime.lock"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
# Debian bookworm's, which markers in the lock file are about
IMAGE_PYTHON = {"python_version": "3.11", "python_full_version": "3.11.2"}
TEXTS = ("pyproject.toml", "README.md", "LICENSE")


def tag_of(image: str) -> str:
    return f"muster-{image}:{PROJECT['project']['version']}"


def sources() -> Iterator[Path]:
    for package in PACKAGES:
        yield from (p for p in sorted((ROOT / package).rglob("*")) if p.is_file() and "__pycache__" not in p.parts)


def content_hash() -> str:
    digest = hashlib.sha256()
    files = (*(ROOT / name for name in TEXTS), LOCK, *sorted((ROOT / "images").iterdir()), Path(__file__), *sources())
    for path in files:
        if path.is_file():
            digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    digest.update(str(Origin.from_environment()).encode())
    return digest.hexdigest()[:16]


def lock_for_image() -> str:
    """The lock file without markers, and without what they rule out there: pip would ask the host's Python."""
    entries = LOCK.read_text().replace("\\\n", "\0").splitlines()
    kept: list[str] = []
    for entry in entries:
        requirement, _, hashes = entry.partition("\0")
        named, _, marker = requirement.partition(";")
        if not marker.strip() or Marker(marker.strip()).evaluate(IMAGE_PYTHON):
            kept.append("\\\n".join((f"{named.rstrip()} ", *hashes.split("\0"))))
    return "\n".join(kept) + "\n"


async def wheels() -> Path:
    """The folder with `runtime.lock` for the image and every wheel that it names, filled once for each lock file."""
    folder = BUILT / f"wheels-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:16]}"
    if not folder.exists():
        for old in BUILT.glob("wheels-*"):
            shutil.rmtree(old)
        part = folder.with_name(f"{folder.name}.part")
        part.mkdir(parents=True, exist_ok=True)
        (part / LOCK.name).write_text(lock_for_image())
        platforms = [option for platform in PLATFORMS for option in ("--platform", platform)]
        # fmt: off
        await run_step(
            sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
            "--only-binary", ":all:", "--require-hashes", *WHEEL_TARGET, *platforms, "--dest", str(part),
            "--requirement", str(part / LOCK.name), step="download the wheels",
        )
        # fmt: on
        part.rename(folder)
    return folder


def fill(context: Path, wheel_folder: Path) -> None:
    shutil.copytree(wheel_folder, context / "wheels", copy_function=_link)
    for path in (ROOT / "pyproject.toml", ROOT / "images" / "Dockerfile", ROOT / "images" / "keep.py"):
        shutil.copy(path, context)
    for path in (*sources(), *(ROOT / name for name in TEXTS)):
        target = context / "source" / path.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)


def _link(source: str, target: str) -> None:
    Path(target).hardlink_to(source)


async def build(image: str, context: Path, base: str, content: str) -> None:
    version, revision = PROJECT["project"]["version"], await _revision()
    labels = {
        CONTENT_LABEL: content,
        "org.opencontainers.image.title": f"muster-{image}",
        "org.opencontainers.image.description": PROJECT["project"]["description"],
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.revision": revision,
        "org.opencontainers.image.licenses": PROJECT["project"]["license"],
        **base_labels(base),
    }
    options = [word for name, value in labels.items() if value for word in ("--label", f"{name}={value}")]
    # The host's network, because apt needs its resolver and routes.
    await run_step(
        *("docker", "build", "--network", "host", "--build-arg", f"BASE={base}", "--target", image),
        *(*options, "--tag", tag_of(image), str(context)),
        step=f"build {tag_of(image)}",
        env={"DOCKER_BUILDKIT": "0"},  # Debian's engine comes without buildx
    )


async def _revision() -> str:
    try:
        return (await run_step("git", "-C", str(ROOT), "rev-parse", "HEAD", step="read the commit")).strip()
    except SandboxError:
        return ""  # a source tree without its history


async def built(image: str, content: str) -> str:
    """The id of the image with these inputs, by its labels: its name may be another work tree's by now."""
    filters = (f"label={CONTENT_LABEL}={content}", f"label=org.opencontainers.image.title=muster-{image}")
    options = [word for one in filters for word in ("--filter", one)]
    ids = await run_step("docker", "images", "--quiet", "--no-trunc", *options, step="list the images")
    return next(iter(ids.split()), "")


async def write_bill(tag: str, image_id: str) -> None:
    """What is in the image, as it says itself: CycloneDX beside the wheels."""
    script = f"{ROOT / 'images' / 'bill.py'}:/tmp/bill.py:ro"
    said = await run_step(
        *("docker", "run", "--rm", "--network", "none", "--read-only", "--volume", script, "--entrypoint", "python"),
        *(image_id, "/tmp/bill.py", tag),
        step=f"list what is in {tag}",
    )
    bill_of(tag).write_text(said)
    say(f"wrote {bill_of(tag).relative_to(ROOT)}")


def bill_of(tag: str) -> Path:
    return BUILT / f"{tag.partition(':')[0]}.cdx.json"


async def main(wanted: list[str]) -> None:
    content = content_hash()
    BUILT.mkdir(parents=True, exist_ok=True)
    todo = [image for image in wanted if not await built(image, content)]
    if todo:
        base = await base_image(say)
        with tempfile.TemporaryDirectory(dir=BUILT) as folder:
            fill(Path(folder), await wheels())
            for image in todo:
                began_s = time.monotonic()
                await build(image, Path(folder), base, content)
                say(f"built {tag_of(image)} in {time.monotonic() - began_s:.0f} s")
    for image in wanted:
        image_id = await built(image, content)
        await run_step("docker", "tag", image_id, tag_of(image), step="name the image")
        if image in todo or not bill_of(tag_of(image)).exists():
            await write_bill(tag_of(image), image_id)
        print(f"{tag_of(image)} {image_id}")
    if await label_of(DEFAULT_IMAGE):  # `muster sandbox build` makes it
        await write_bill(DEFAULT_IMAGE, await id_of(DEFAULT_IMAGE))


def say(line: str) -> None:
    print(f"images: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1:] or list(IMAGES)))
    except SandboxError as e:
        sys.exit(f"error: {e}\nhint: {e.hint}" if e.hint else f"error: {e}")
