"""Each sandbox of this host is a user of its own to the kernel: what that counts by user, one cannot use up for
another, and what belongs to the user of an image or a checkout is there for each as before."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from repo.checkout import index_of
from repo.patch import extract_patch
from sandbox.base import Command, Sandbox, SandboxDriver, SandboxSpec, Setup
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.card import Card, write_card
from sandbox.container import ACCOUNTS, EXPIRY_LABEL, OWNER_LABEL
from sandbox.contract import make_project
from sandbox.docker import Holder
from sandbox.driver import DockerDriver
from sandbox.uids import AGENT_UID, FIRST_UID, PROBE, UIDS, drawn, hide, maps_owners, show, uid_for

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


@pytest.fixture(scope="session")
def own_users(tmp_path_factory: pytest.TempPathFactory) -> bool:
    """Whether this host can give each sandbox a user. Where docs/sandbox.md says that it can, it must."""
    folder = tmp_path_factory.mktemp("users")
    if maps_owners(folder):
        return True
    kind = subprocess.check_output(["stat", "--file-system", "--format=%T", str(folder)], text=True).strip()
    release = re.match(r"(\d+)\.(\d+)", os.uname().release)
    assert release is not None
    assert (int(release[1]), int(release[2])) < (5, 19) or kind not in ("ext2/ext3", "xfs", "btrfs")
    return False


@pytest.fixture
def mapping_host(own_users: bool) -> None:
    if not own_users:  # no part is missing that could be installed: also where all tests have to run
        pytest.skip("this kernel, or the file system of temporary files, maps no owners: see docs/sandbox.md")


@pytest.fixture
def unmappable(own_users: bool, tmp_path: Path) -> Iterator[Path]:
    """A folder of a file system that shows its files to nobody as another user's: an overlay, if not all are so."""
    if not own_users:
        yield tmp_path
        return
    folders = [tmp_path / "overlay" / name for name in ("lower", "upper", "work", "merged")]
    for each in folders:
        each.mkdir(parents=True)
    options = "lowerdir={},upperdir={},workdir={}".format(*folders)
    subprocess.check_call(["mount", "-t", "overlay", "overlay", "-o", options, str(folders[-1])])
    yield folders[-1]
    subprocess.check_call(["umount", str(folders[-1])])


@pytest.fixture(params=["docker", "bubblewrap"])
def unmappable_place(
    request: pytest.FixtureRequest, unmappable: Path, owner: str
) -> tuple[DockerDriver | BubblewrapDriver, str]:
    kinds = {"docker": (DockerDriver, "image"), "bubblewrap": (BubblewrapDriver, "root_folder")}
    make, image = kinds[request.param]
    return make(unmappable / "state", owner), request.getfixturevalue(image)


async def said(sandbox: Sandbox, line: str) -> str:
    return (await sandbox.exec(Command(line, timeout_s=120))).output.decode()


@pytest.mark.usefixtures("mapping_host")
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


async def test_the_checkout_and_the_home_are_the_sandboxs_own(place: Place, tmp_path: Path, own_users: bool):
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
        assert len({first, second, AGENT_UID}) == (3 if own_users else 1)
        assert {first, second} <= {AGENT_UID, *range(FIRST_UID, FIRST_UID + UIDS)}
    assert project.checkout is not None and project.checkout.stat().st_uid == AGENT_UID


def held(owner: str, image: str) -> Holder:
    """Who reaps, on this machine, takes what does not say when it expires."""
    return Holder(f"muster-{owner}", image, {OWNER_LABEL: owner, EXPIRY_LABEL: str(int(time.time()) + 600)})


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
    holder = held(owner, image)

    assert await driver.engine.file_of(path, holder) == b""
    assert b"agent:x:10001:" in await driver.engine.file_of(ACCOUNTS, holder)


async def test_of_an_image_nothing_is_left_that_the_engine_made_to_look_into_it(
    driver: DockerDriver, image: str, owner: str
):
    """A volume, that is, where the image says that it has one."""
    lines = f"FROM {image}\nUSER 0\nRUN mkdir /data && touch /data/{owner}\nVOLUME /data\n"
    subprocess.run(["docker", "build", "--quiet", "--tag", owner, "-"], input=lines.encode(), check=True)
    try:
        assert await driver.engine.file_of(ACCOUNTS, held(owner, owner))
        engine = subprocess.check_output(["docker", "info", "--format", "{{.DockerRootDir}}"], text=True).strip()
        assert list(Path(engine).glob(f"volumes/*/_data/{owner}")) == []
    finally:
        subprocess.check_call(["docker", "rmi", "--force", owner], stdout=subprocess.DEVNULL)


@pytest.mark.usefixtures("mapping_host")
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


async def test_where_owners_cannot_be_mapped_all_are_one_user_and_that_is_said(
    unmappable_place: tuple[DockerDriver | BubblewrapDriver, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    driver, image = unmappable_place
    project = await make_project(tmp_path, image)
    async with driver:
        one, other = await asyncio.gather(*(driver.open(project) for _ in range(2)))
        async with one, other:
            look = "stat -c %U . src/app.py; id -un; git status --short; echo 1 > src/app.py; git diff --name-only"
            assert await said(one, look) == "agent\nagent\nagent\nsrc/app.py\n"
            assert [file.path for file in (await one.patch(lambda _: True)).files] == ["src/app.py"]
            assert {owner_of(driver, each) for each in (one, other)} == {AGENT_UID}
        [told] = [each for each in await driver.report() if each.part == "users"]

    assert (told.found.partition(":")[0], bool(told.hint)) == (f"all sandboxes are the user {AGENT_UID}", True)
    assert caplog.text.count("all sandboxes are one user") == 1
    assert list(tmp_path.glob("**/probe-*")) == []


@pytest.mark.usefixtures("mapping_host")
def test_a_file_system_of_checkouts_that_maps_no_owners_is_told_once(
    unmappable: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    checkouts = [unmappable / "first", unmappable / "second"]
    for each in checkouts:
        each.mkdir()

    assert [uid_for(tmp_path / "sandboxes", each) for each in checkouts] == [AGENT_UID, AGENT_UID]
    assert caplog.text.count(f"are the user {AGENT_UID}") == 1


NO_NAMESPACES = """
import sys
from pathlib import Path
from sandbox.errors import SandboxError
from sandbox.uids import show
Path("/proc/sys/user/max_user_namespaces").write_text("0")
try:
    show(Path(sys.argv[1]), Path(sys.argv[2]), 2_000_000)
except SandboxError as refusal:
    print(refusal)
"""


def test_where_there_is_no_user_namespace_left_that_is_an_error_of_ours(tmp_path: Path):
    """Whoever runs out of them ends here, at any moment. The number is that of a namespace of this test's."""
    words = ["unshare", "--user", "--map-root-user", sys.executable, "-c", NO_NAMESPACES, tmp_path, tmp_path / "place"]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=True)

    assert done.stdout == "The kernel made no user namespace: unshare failed: No space left on device.\n"


def test_a_user_is_found_also_where_hardly_one_is_left():
    everybody = set(range(FIRST_UID, FIRST_UID + UIDS))

    assert drawn(everybody - {FIRST_UID + 7}) == FIRST_UID + 7
    assert drawn(everybody) in everybody


@pytest.mark.usefixtures("mapping_host")
def test_a_user_is_found_while_other_sandboxes_come_and_go(tmp_path: Path):
    done, sandboxes = threading.Event(), tmp_path / "sandboxes"

    def come_and_go() -> None:
        while not done.is_set():
            (sandboxes / "other/disk/upper").mkdir(parents=True)
            for each in ("other/disk/upper", "other/disk", "other"):
                (sandboxes / each).rmdir()

    (tmp_path / "checkout").mkdir()
    coming = threading.Thread(target=come_and_go)
    coming.start()
    try:
        assert all(uid_for(sandboxes, tmp_path / "checkout") >= FIRST_UID for _ in range(3000))
    finally:
        done.set()
        coming.join()


@pytest.mark.usefixtures("mapping_host")
async def test_what_a_killed_worker_had_mounted_goes_and_the_checkout_stays(place: Place, tmp_path: Path):
    """Killed before a sandbox started over its checkout, or while it found out whether this host can."""
    driver, _ = place
    state = Path(driver.state_dir)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
    sandbox, probe, checkout = state / "sandboxes/muster-1", state / f"{PROBE}1", tmp_path / "checkout"
    for each in (sandbox, probe, checkout):
        each.mkdir(parents=True)
    (checkout / "file").touch()
    write_card(sandbox, Card("a dead worker", 1, {}))
    show(checkout, sandbox / "lower0", FIRST_UID)
    show(checkout, probe / "shown", FIRST_UID)
    os.utime(probe, (1, 1))

    assert await driver.reap(now_s=2) == ["muster-1"]
    assert maps_owners(state)
    assert [sandbox.exists(), probe.exists(), os.listdir(checkout)] == [False, False, ["file"]]
    assert str(state) not in Path("/proc/mounts").read_text()
