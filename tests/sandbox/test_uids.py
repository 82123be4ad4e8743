"""Each sandbox of this host is a user of its own to the kernel: what that counts by user, one cannot use up for
another, and what belongs to the user of an image or a checkout is there for each as before."""

from __future__ import annotations

import asyncio
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from repo.checkout import index_of
from repo.patch import extract_patch
from sandbox.base import Command, Sandbox, SandboxDriver, SandboxSpec, Setup
from sandbox.container import ACCOUNTS
from sandbox.contract import make_project
from sandbox.docker import Holder
from sandbox.driver import DockerDriver
from sandbox.uids import AGENT_UID, FIRST_UID, UIDS, hide, maps_owners, show

pytestmark = [pytest.mark.docker, pytest.mark.usefixtures("private_files")]

Place = tuple[SandboxDriver, str]

# Takes all that it gets of each thing, says so, and holds it.
GREEDY = """
import ctypes, fcntl, glob, os, resource, signal, socket, sys
libc = ctypes.CDLL(None)
watches = 0
while libc.inotify_init1(0) >= 0:
    watches += 1
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGRTMIN])
while libc.sigqueue(os.getpid(), int(signal.SIGRTMIN), ctypes.c_void_p(0)) == 0:
    pass
pairs = []
try:
    while True:
        pairs.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        for _ in range(5):
            socket.send_fds(pairs[-1][0], [b"x"], [0] * 250)
except OSError:
    pass
pipes = [os.pipe() for _ in range(1500)]
[init] = glob.glob("/opt/venv/lib/python3*/site-packages/pytest/__init__.py")
signal.signal(signal.SIGIO, signal.SIG_IGN)
held = os.open(init, os.O_RDONLY)
try:
    fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
except OSError:
    pass
for _ in range(40):
    if os.fork() == 0:
        signal.pause()
print("took", watches > 0, len(pairs) > 0, flush=True)
signal.pause()
"""

MODEST = """
import ctypes, fcntl, glob, os, resource, signal, socket, time
libc = ctypes.CDLL(None)
began = time.monotonic()
[init] = glob.glob("/opt/venv/lib/python3*/site-packages/pytest/__init__.py")
open(init).read()
print("opens", time.monotonic() - began < 20)
print("watches", libc.inotify_init1(0) >= 0)
print("timers", libc.timer_create(1, None, ctypes.create_string_buffer(64)) == 0)
print("pipes", fcntl.fcntl(os.pipe()[1], fcntl.F_GETPIPE_SZ))
try:
    near, far = socket.socketpair()
    socket.send_fds(near, [b"x"], [0])
    print("sends True")
except OSError as error:
    print("sends", error)
resource.setrlimit(resource.RLIMIT_NPROC, (30, 30))
try:
    if os.fork() == 0:
        os._exit(0)
    print("forks True")
except OSError as error:
    print("forks", error)
"""
WELL = "opens True\nwatches True\ntimers True\npipes 65536\nsends True\nforks True\n"


@pytest.fixture(params=["docker", "bubblewrap"])
def place(request: pytest.FixtureRequest) -> Place:
    """A driver, and what it calls the image."""
    fixtures = {"docker": ("driver", "image"), "bubblewrap": ("bubblewrap", "root_folder")}
    driver, image = (request.getfixturevalue(name) for name in fixtures[request.param])
    return driver, image


async def said(sandbox: Sandbox, line: str) -> str:
    return (await sandbox.exec(Command(line, timeout_s=120))).output.decode()


async def test_nobody_uses_up_what_the_kernel_counts_by_user(place: Place):
    driver, image = place
    greedy, modest = await asyncio.gather(*(driver.open(SandboxSpec(image)) for _ in range(2)))
    async with greedy, modest:
        took = asyncio.Event()
        taking = Command(["python3", "-c", GREEDY], timeout_s=300)
        holding = asyncio.create_task(greedy.exec(taking, lambda _: took.set()))
        waiting = asyncio.create_task(took.wait())
        await asyncio.wait((holding, waiting), return_when=asyncio.FIRST_COMPLETED)
        assert not holding.done(), holding.result().output
        result = await modest.exec(Command(["python3", "-c", MODEST], timeout_s=120))
        await greedy.kill_all()
        waiting.cancel()

        assert (await holding).output == b"took True True\n"
        assert result.output.decode() == WELL


WATCHES = """
import ctypes, os, select, sys
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(0)
assert libc.inotify_add_watch(watch, b"/usr/bin", 0x20) >= 0  # IN_OPEN
print("watching", flush=True)
sys.stdin.readline()
print(os.read(watch, 4096) if select.select([watch], [], [], 0)[0] else "nothing", flush=True)
"""


async def test_nobody_sees_which_programs_another_starts(place: Place):
    driver, image = place
    one, other = await asyncio.gather(*(driver.open(SandboxSpec(image)) for _ in range(2)))
    async with one, other:
        watcher = await one.start(["python3", "-c", WATCHES])
        assert await watcher.receive() == b"watching\n"
        assert await said(other, "sort /dev/null; git --version | cut -c -3") == "git\n"
        await watcher.send(b"\n")
        assert await watcher.receive() == b"nothing\n"


async def test_the_checkout_and_the_home_are_the_sandboxs_own(place: Place, tmp_path: Path):
    """Its user has the name that the image gives to 10001, and git finds the checkout as it left it."""
    driver, image = place
    project = await make_project(tmp_path, image)
    async with await driver.open(project) as one, await driver.open(project) as other:
        look = "stat -c %U . src src/app.py .git ~ /tmp | sort -u; id -un; git status --short; git log --format=%s"
        assert await said(one, look) == "agent\nagent\nfirst\n"
        assert await said(one, "echo 1 > src/app.py; rm README.md; mv tests t; chmod 700 src; ls") == "src\nt\n"
        assert await said(one, "git diff --name-only") == "README.md\nsrc/app.py\ntests/test_app.py\n"
        patch = await one.patch(lambda _: True)
        [first, second] = [owner_of(driver, each) for each in (one, other)]

        assert {file.path for file in patch.files} == {"README.md", "src/app.py", "t/test_app.py"}
        assert await said(other, "ls; git status --short") == "README.md\nsrc\ntests\n"
        assert len({first, second, AGENT_UID}) == 3
        assert {first, second} <= set(range(FIRST_UID, FIRST_UID + UIDS))
    assert project.checkout is not None and project.checkout.stat().st_uid == AGENT_UID


def owner_of(driver: SandboxDriver, sandbox: Sandbox) -> int:
    [upper] = Path(driver.state_dir).glob(f"sandboxes/{sandbox.id}/disk/upper*")  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
    return upper.stat().st_uid


async def test_what_a_setup_kept_for_itself_is_there_for_every_sandbox(place: Place, tmp_path: Path, owner: str):
    driver, image = place
    project = await make_project(tmp_path, image)
    assert project.checkout is not None
    private = "umask 077; mkdir /opt/venv/own; echo kept > /opt/venv/own/file; echo made > made.log; id -u > id.log"
    setup = Setup(image, project.checkout, project.base, owner, (private,), frozenset())
    made = await driver.prepare_image(setup)
    try:
        async with await driver.open(replace(project, image=made)) as sandbox:
            look = "cat /opt/venv/own/file made.log id.log; echo more >> made.log; stat -c %U made.log; cat made.log"
            assert await said(sandbox, look) == f"kept\nmade\n{AGENT_UID}\nagent\nmade\nmore\n"
    finally:
        if driver.name == "docker":
            subprocess.check_call(["docker", "rmi", "--force", made], stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("path", ["/etc", "/bin", "/usr/bin/git", "/etc/shadow/x", "/nowhere"])
async def test_of_an_image_a_small_file_is_read_and_nothing_else(
    driver: DockerDriver, image: str, owner: str, path: str
):
    """A folder, a link, megabytes: a setup may have put them where accounts are looked for."""
    holder = Holder(f"muster-{owner}", image, {"muster.owner": owner})

    assert await driver.engine.file_of(path, holder) == b""
    assert b"agent:x:10001:" in await driver.engine.file_of(ACCOUNTS, holder)


async def test_git_knows_files_unread_that_are_shown_as_another_users(tmp_path: Path):
    """What is too large is told as left out of a patch where it differs, and nobody reads it to find out."""
    project = await make_project(tmp_path, "")
    assert project.checkout is not None and project.git_dir is not None
    place = tmp_path / "shown"
    show(project.checkout, place, FIRST_UID)
    try:
        seed = index_of(project.checkout)
        asked = {"git_dir": project.git_dir, "base": project.base, "work_tree": place, "index_seed": seed}
        patch = await extract_patch(**asked, max_bytes=10)
        owner = (place / "src/app.py").stat().st_uid
    finally:
        hide(place)

    assert (owner, patch.files, patch.warnings) == (FIRST_UID, (), ())


def test_where_owners_cannot_be_mapped_that_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """An overlay is such a file system."""
    folders = [tmp_path / name for name in ("lower", "upper", "work", "merged")]
    for each in folders:
        each.mkdir()
    options = "lowerdir={},upperdir={},workdir={}".format(*folders)
    subprocess.check_call(["mount", "-t", "overlay", "overlay", "-o", options, str(folders[-1])])
    try:
        assert not maps_owners(folders[-1])
        assert os.listdir(folders[-1]) == []
    finally:
        subprocess.check_call(["umount", str(folders[-1])])
    assert "all sandboxes are one user" in caplog.text
