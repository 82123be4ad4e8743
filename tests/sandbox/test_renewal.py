"""A sandbox that is used again holds nothing of who had it before, whatever they tried to leave."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox import namespace
from sandbox.base import Command, Sandbox, SandboxDriver, SandboxSpec
from sandbox.bubblewrap import BubblewrapDriver
from sandbox.contract import make_project
from sandbox.driver import DockerDriver
from sandbox.errors import SandboxError, SandboxLost

pytestmark = pytest.mark.docker

# All that a command can see of what others could have left.
LOOK = r"""
import hashlib, os, re
for top in ("/workspace", "/tmp", "/home/agent", "/dev/shm", "/dev/mqueue"):
    for folder, folders, files in os.walk(top):
        for name in sorted([".", *folders, *files]):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content = open(path, "rb").read() if os.path.isfile(path) and not os.path.islink(path) else b""
            # the top folders, and all in memory, are as young as the turn
            at = status.st_mtime_ns if path.startswith("/workspace/") and name != "." else ""
            print(path, oct(status.st_mode), status.st_uid, status.st_gid, status.st_nlink, status.st_size, at,
                  hashlib.sha256(content).hexdigest()[:8], os.listxattr(path, follow_symlinks=False))
own = (1, os.getpid(), os.getppid())
print(sorted(each for each in os.listdir("/proc") if each.isdigit() and int(each) not in own))
print(sorted(os.environ.items() - {("MUSTER_CALL", os.environ["MUSTER_CALL"])}))
for kind in ("shm", "sem", "msg"):
    print(kind, len(open(f"/proc/sysvipc/{kind}").readlines()))
mounts = [re.split(" - ", line) for line in open("/proc/self/mountinfo")]
print(*sorted(f"{place.split()[4]} {place.split()[5]} {what.split()[0]} {re.sub('(upper|work)dir=[^,]*', '', what)}"
              for place, what in mounts), sep="\n")
print(os.getpriority(os.PRIO_PROCESS, 1), os.sched_getaffinity(1), os.sched_getscheduler(1))
"""

# The last two go on in the background, in sessions and folders of their own.
SPOIL = r"""
echo new > src/new.py; echo "x = 2" > src/other.py; rm README.md; mkdir -p deep/er; echo a > deep/er/file
ln -s /etc/passwd src/link
rm -rf tests; mkdir tests; chmod 000 tests; touch -d 2001-01-01 src/app.py; chmod 777 src
git config user.name mallory; git config user.email m@localhost; git config core.hooksPath /tmp/hooks
mkdir -p .git/hooks; echo 'echo owned' > .git/hooks/pre-commit
echo '*.py filter=evil' > .git/info/attributes; git add --all; git commit --quiet --message spoilt
mkfifo pipe; python3 -c "import os; os.setxattr('src/other.py', 'user.left', b'x')"
mkdir /tmp/hooks; echo left > /tmp/left; ln /tmp/left /tmp/hooks/hard; chmod 700 /tmp; touch -d 2001-01-01 /tmp
echo 'alias python3=false' > ~/.bashrc; echo '[user]' > ~/.gitconfig; mkdir -p ~/.local/bin; chmod 000 ~/.local
echo left > /dev/shm/left
export LEFT=1
cd /tmp
setsid sh -c 'trap "" TERM HUP; while true; do echo > /workspace/src/back.py; sleep 0.05; done' > /dev/null 2>&1 &
env -i setsid python3 -c "
import os, time
os.chdir('/workspace'); held = open('/tmp/left'); kept = os.open('/workspace', os.O_RDONLY)
while True:
    time.sleep(0.05)
    os.close(os.open('again', os.O_CREAT | os.O_WRONLY, dir_fd=kept))
" > /dev/null 2>&1 &
until [ -e /workspace/again ] && [ -e /workspace/src/back.py ]; do sleep 0.01; done
"""

DEEP = "import os\nfor _ in range(3000): os.mkdir('dd'); os.chdir('dd')"


@pytest.fixture(params=["docker", "bubblewrap"])
def any_driver(request: pytest.FixtureRequest, driver: DockerDriver, bubblewrap: BubblewrapDriver) -> SandboxDriver:
    return {"docker": driver, "bubblewrap": bubblewrap}[request.param]


@pytest.fixture
async def spec(any_driver: SandboxDriver, image: str, root_folder: str, tmp_path: Path) -> SandboxSpec:
    chosen = image if any_driver.name == DockerDriver.name else root_folder
    return replace(await make_project(tmp_path, chosen), reusable=True)


@pytest.fixture
async def box(any_driver: SandboxDriver, spec: SandboxSpec) -> AsyncIterator[Sandbox]:
    async with await any_driver.open(spec) as sandbox:
        yield sandbox


async def seen(sandbox: Sandbox) -> list[str]:
    ended = await sandbox.exec(Command(["python3", "-c", LOOK]))
    assert ended.exit_code == 0, ended.output
    return ended.output.decode().splitlines()


async def spoil(sandbox: Sandbox) -> None:
    ended = await sandbox.exec(Command(SPOIL))
    assert ended.exit_code == 0, ended.output


async def test_whatever_commands_leave_is_gone_and_nothing_else_differs(box: Sandbox):
    before = await seen(box)
    for turn in range(3):
        await spoil(box)
        assert await seen(box) != before

        await box.renew(labels={"task": f"next-{turn}"})

        assert await seen(box) == before
        assert (await box.patch(lambda _: True)).empty


async def test_a_folder_may_be_as_deep_as_they_like(box: Sandbox):
    before = await seen(box)
    for _ in range(2):  # the second is there when the sandbox is closed
        await box.renew(labels={})
        assert await seen(box) == before
        ended = await box.exec(Command(["python3", "-c", DEEP]))
        assert ended.exit_code == 0, ended.output


async def test_patches_of_each_turn_are_its_own(box: Sandbox):
    for turn in range(3):
        await box.exec(Command(f"echo 'turn = {turn}' >> src/other.py; echo {turn} > src/new_{turn}.py"))
        patch = await box.patch(lambda _: True)
        assert [file.path for file in patch.files] == [f"src/new_{turn}.py", "src/other.py"]
        assert patch.diff.count(b"\n+") == 4  # two names of files, and two lines
        await box.renew(labels={})


async def test_a_base_of_ones_own_is_gone_with_its_turn(box: Sandbox):
    await box.exec(Command("echo 'y = 2' >> src/other.py"))
    diff = (await box.snapshot()).diff
    await box.renew(labels={})

    await box.apply(diff, as_base=True)
    assert (await box.snapshot()).empty
    await box.renew(labels={})

    assert (await box.exec(Command("cat src/other.py"))).output == b"x = 1\n"
    assert (await box.snapshot()).empty


async def test_it_is_known_by_its_next_task(any_driver: SandboxDriver, box: Sandbox):
    await box.renew(labels={"task": "the-next"})

    assert [each.labels for each in await any_driver.known() if each.sandbox_id == box.id] == [{"task": "the-next"}]


LEAVES = {
    "shared memory of the kernel's": "import ctypes; assert ctypes.CDLL(None).shmget(7, 4096, 0o1777) >= 0",
    "semaphores": "import ctypes; assert ctypes.CDLL(None).semget(7, 1, 0o1777) >= 0",
    "a queue": "import ctypes; assert ctypes.CDLL(None).msgget(7, 0o1777) >= 0",
    "a slow server": "import os; os.setpriority(os.PRIO_PROCESS, 1, 19)",
    "a server on one core": "import os; os.sched_setaffinity(1, {min(os.sched_getaffinity(1))})",
    "a server that waits for the disk": "import ctypes; assert ctypes.CDLL(None).syscall(251, 1, 1, 3 << 13) == 0",
    "a batch job": "import os; os.sched_setscheduler(1, os.SCHED_BATCH, os.sched_param(0))",
}


@pytest.mark.parametrize("what", LEAVES)
async def test_what_cannot_be_taken_away_ends_it(driver_box: Sandbox, what: str):
    ended = await driver_box.exec(Command(["python3", "-c", LEAVES[what]]))
    assert ended.exit_code == 0, ended.output

    with pytest.raises(SandboxError):
        await driver_box.renew(labels={})


async def test_a_queue_with_a_name_ends_it(box: Sandbox):
    create = "import ctypes, os; assert ctypes.CDLL(None).mq_open(b'/left', os.O_CREAT | os.O_RDWR, 0o600, None) >= 0"
    ended = await box.exec(Command(["python3", "-c", create]))
    assert ended.exit_code == 0, ended.output

    with pytest.raises(SandboxError, match="queues"):
        await box.renew(labels={})


CONNECT = """
import socket
with socket.create_server(("127.0.0.1", 8000)) as server:
    caller = socket.create_connection(("127.0.0.1", 8000))
    called, _ = server.accept()
    called.close(); caller.recv(1); caller.close()
"""


async def test_ports_that_connections_still_hold_are_nobodys_else(box: Sandbox):
    ended = await box.exec(Command(["python3", "-c", CONNECT]))
    assert ended.exit_code == 0, ended.output

    with pytest.raises(SandboxError, match="ports"):
        await box.renew(labels={})


async def test_where_queues_cannot_be_seen_it_is_not_used_again(
    bubblewrap: BubblewrapDriver, root_folder: str, monkeypatch: pytest.MonkeyPatch
):
    """Of a namespace that was made without a place for them."""
    monkeypatch.setattr(namespace, "QUEUES", "/dev/elsewhere")

    with pytest.raises(SandboxError, match="at /dev/mqueue"):
        await bubblewrap.open(SandboxSpec(root_folder, reusable=True))


@pytest.fixture
async def driver_box(bubblewrap: SandboxDriver, root_folder: str, tmp_path: Path) -> AsyncIterator[Sandbox]:
    spec = replace(await make_project(tmp_path, root_folder), reusable=True)
    async with await bubblewrap.open(spec) as sandbox:
        yield sandbox


async def test_one_that_was_not_asked_for_it_cannot(any_driver: SandboxDriver, spec: SandboxSpec):
    async with await any_driver.open(replace(spec, reusable=False)) as once:
        with pytest.raises(SandboxError, match="only once"):
            await once.renew(labels={})


async def test_one_that_is_gone_says_so(box: Sandbox):
    await box.close()

    with pytest.raises(SandboxLost):
        await box.renew(labels={})


async def test_what_a_turn_has_filled_is_free_for_the_next(any_driver: SandboxDriver, spec: SandboxSpec):
    limits = replace(spec.limits, workspace_bytes=64 * 1024 * 1024, tmp_bytes=32 * 1024 * 1024)
    fill = "head -c 40M /dev/zero > full && head -c 24M /dev/zero > /tmp/full"
    async with await any_driver.open(replace(spec, limits=limits)) as sandbox:
        for _ in range(3):
            ended = await sandbox.exec(Command(fill))
            assert ended.exit_code == 0, ended.output
            await sandbox.renew(labels={})
