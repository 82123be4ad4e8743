"""An image that somebody brings: good, or one sentence about what it lacks and a hint. With real, odd images."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from sandbox.base import SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.driver import DockerDriver
from sandbox.errors import DiskFull, ImageUnfit
from sandbox.first_use import require_fit
from sandbox.unfit import full_disk, why_not_started

pytestmark = pytest.mark.docker

E_MACHINE, ARM = slice(18, 20), b"\xb7\x00"
OLD_PYTHON = "#!/bin/sh\nexec /usr/bin/python3 -c 'raise SyntaxError(\"future feature annotations is not defined\")'\n"
SMALL_PYTHON = "#!/bin/sh\nexec /usr/bin/python3 -S -c 'import no_selectors'\n"


def packed(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


# what it lacks → how it is made of ours, and what is said
LACKING: Mapping[str, tuple[str, str, str]] = {
    "python": ("rm -f /usr/bin/python3*", "has no python3", "apk add python3"),
    "git": ("rm -f /usr/bin/git", "has no git", "install it"),
    "a new python": (f"echo {packed(OLD_PYTHON)} | base64 -d > $P", "too old for the tool server", "3.9 or later"),
    "a loader": ("printf '#!/nowhere\\n' > $P", "has a python3 that cannot be started", "ldd"),
    "modules": (f"echo {packed(SMALL_PYTHON)} | base64 -d > $P", "without its module no_selectors", "python3-minimal"),
}
Named = Callable[[], str]


@pytest.fixture
def fresh_tag() -> Iterator[Named]:
    """Names for images; those that come into being are removed."""
    given: list[str] = []

    def make() -> str:
        given.append(f"muster-test-odd:{os.getpid()}-{len(given)}-{time.time_ns()}")
        return given[-1]

    yield make
    for tag in given:
        subprocess.run(["docker", "rmi", "--force", tag], capture_output=True, check=False)


def for_another_processor() -> bytes:
    program = bytearray(Path("/bin/true").read_bytes())
    program[E_MACHINE] = ARM
    return bytes(program)


def import_image(tag: str, name: str, content: bytes) -> None:
    """An image of one program."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(content), 0o755
        archive.addfile(entry, io.BytesIO(content))
    subprocess.run(["docker", "import", "-", tag], input=whole.getvalue(), check=True, capture_output=True)


def derive_image(tag: str, base: str, *lines: str) -> None:
    environment = {**os.environ, "DOCKER_BUILDKIT": "0"}
    text = "\n".join((f"FROM {base}", "USER root", *lines))
    build = ["docker", "build", "--quiet", "--tag", tag, "-"]
    subprocess.run(build, input=text.encode(), env=environment, check=True, capture_output=True)


async def refusal_of(driver: DockerDriver | BubblewrapDriver, image: str, notes: Path) -> ImageUnfit:
    with pytest.raises(ImageUnfit) as refused:
        await require_fit(driver, image, notes)
    assert str(refused.value).startswith(f"The image {image} ") and "\n" not in str(refused.value)
    return refused.value


@pytest.mark.parametrize("what", LACKING)
async def test_what_an_image_lacks_is_said(
    driver: DockerDriver, image: str, fresh_tag: Named, tmp_path: Path, what: str
):
    made_by, said, hint = LACKING[what]
    tag = fresh_tag()
    run = f"RUN export P=/usr/local/bin/python3; {made_by}; [ ! -e $P ] || chmod 755 $P"
    await asyncio.to_thread(derive_image, tag, image, run)

    refused = await refusal_of(driver, tag, tmp_path / "notes")
    assert said in str(refused) and hint in refused.hint


@pytest.mark.parametrize(
    ("name", "said", "hint"),
    [("etc/true", "has no shell at /bin/sh", "dash"), ("bin/sh", "another processor", "--platform")],
)
async def test_an_image_that_cannot_even_start_is_said(
    driver: DockerDriver, fresh_tag: Named, tmp_path: Path, name: str, said: str, hint: str
):
    tag = fresh_tag()
    await asyncio.to_thread(import_image, tag, name, for_another_processor())

    refused = await refusal_of(driver, tag, tmp_path / "notes")
    assert said in str(refused) and hint in refused.hint


@pytest.mark.parametrize(("name", "said"), [("", "has no shell at /bin/sh"), ("bin/sh", "another processor")])
async def test_a_folder_that_cannot_even_start_is_said(
    bubblewrap: BubblewrapDriver, tmp_path: Path, name: str, said: str
):
    root = tmp_path / "root"
    for part in ("usr", "bin", "proc"):
        (root / part).mkdir(parents=True)
    if name:
        (root / name).write_bytes(for_another_processor())
        (root / name).chmod(0o755)

    assert said in str(await refusal_of(bubblewrap, str(root), tmp_path / "notes"))


def sandboxes_made(owner: str, since: float) -> int:
    """By the engine's own account; what is only looked into is never started."""
    asked = ["--filter", "event=start", "--filter", f"label=muster.owner={owner}", "--format", "{{.ID}}"]
    command = ["docker", "events", "--since", f"{since:.9f}", "--until", f"{time.time():.9f}", *asked]
    return len(subprocess.check_output(command, text=True).split())


async def test_a_good_image_is_tried_once_however_many_ask(
    driver: DockerDriver, image: str, owner: str, fresh_tag: Named, tmp_path: Path
):
    tag, since = fresh_tag(), time.time()
    await asyncio.to_thread(subprocess.check_call, ["docker", "tag", image, tag])

    both = await asyncio.gather(*(require_fit(driver, tag, tmp_path / "notes") for _ in range(2)))
    assert both == [(), ()]
    assert await require_fit(driver, tag, tmp_path / "notes") == ()
    assert await asyncio.to_thread(sandboxes_made, owner, since) == 2  # an empty one, and one over a project


async def test_what_only_some_tasks_want_is_no_refusal(
    driver: DockerDriver, image: str, fresh_tag: Named, tmp_path: Path
):
    tag = fresh_tag()
    await asyncio.to_thread(derive_image, tag, image, "RUN rm -f /usr/bin/rg")

    [lack] = await require_fit(driver, tag, tmp_path / "notes")
    assert "ripgrep" in lack
    assert await require_fit(driver, tag, tmp_path / "notes") == (lack,)


async def test_a_name_that_no_image_can_have_is_said(driver: DockerDriver):
    with pytest.raises(ImageUnfit, match="a name that no image can have"):
        await driver.open(SandboxSpec("Not a name"))


def test_a_full_disk_is_known_behind_another_error():
    try:
        try:
            raise OSError(28, "No space left on device", "/var/lib")
        except OSError as cause:
            raise RuntimeError("no luck") from cause
    except RuntimeError as error:
        full = full_disk(error)

    assert isinstance(full, DiskFull) and "/var/lib" in str(full) and "prune" in full.hint
    assert full_disk(FileNotFoundError(2, "no such file")) is None


def test_what_nobody_knows_has_no_verdict():
    assert why_not_started("any", "cgroup trouble of a new kind") is None
