"""The tool server where the engine sees no file of its worker: run as `python3 -S -E elsewhere.py`, beside server.py.

It fills the workspace itself, remembers how each file looked then, and tells what differs now; it stops all other
processes while somebody looks; and it passes connections of inside on over the stream. Nothing of that needs a
privilege, or a mount of the host: that a file was changed is told by stamps that only the kernel sets.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import json
import mmap
import os
import selectors
import signal
import stat
import struct
import sys
import time

import server

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as sockets
    from collections.abc import Iterator
    from typing import Any

    Fields = dict[str, Any]

ROOT = b"/workspace"
PACK = "/run/muster-base/pack"
LENGTH = struct.Struct("!Q")
MAX_DEPTH = 200  # of folders; what lies deeper is said to be unreadable
HOLD_TIMEOUT_S = 5.0  # a process in the middle of a long write stops when that is done
WRITING = ("exec", "spawn", "start", "write")  # wait while nobody may write


class Connection(server.Service):
    """One connection of inside, talked to like a service: the process at its other end is any."""

    def __init__(self, number: int, connection: sockets.socket) -> None:
        self.id, self.exited, self.waiting = number, True, None
        self.cookie = f"{server.COOKIE}={number}.{os.urandom(8).hex()}"  # nobody's
        self.pid = 0
        self.unsent = server.collections.deque()
        connection.setblocking(False)
        self.output = connection.detach()
        self.input = os.dup(self.output)

    def write(self) -> None:
        try:
            super().write()
        except ConnectionError:
            while self.unsent:
                server.send(server.frame({"id": self.unsent.popleft()[0], "type": "end"}))

    def read(self) -> None:
        try:
            super().read()
        except ConnectionError:
            request_id, self.waiting = self.waiting, None
            server.send(server.frame({"id": request_id, "type": "end", "ended": True}))


class Server(server.Server):
    def __init__(self, lifetime_s: float, call_filter: bytes) -> None:
        super().__init__(lifetime_s, call_filter)
        self.stamps: dict[bytes, tuple[int, ...]] = {}  # of everything that the workspace was filled with
        self.unlocked: list[tuple[bytes, int]] = []  # what was made readable to be read, and its mode before
        self.held = False
        self.stopped_before: set[int] = set()
        self.late: list[tuple[Fields, bytes]] = []
        more = {
            "fill": self.do_fill,
            "remember": self.do_remember,
            "changes": self.do_changes,
            "fetch": self.do_fetch,
            "settle": self.do_settle,
            "hold": self.do_hold,
            "release": self.do_release,
            "relay": self.do_relay,
            "accept": self.do_accept,
        }
        self.operations.update(more)

    def answer(self, request: Fields, body: bytes) -> None:
        if self.held and request["op"] in WRITING:
            self.late.append((request, body))
        else:
            super().answer(request, body)

    def do_cancel(self, request: Fields, body: bytes) -> Fields:
        self.late = [each for each in self.late if each[0]["id"] != request["target"]]
        return super().do_cancel(request, body)

    def do_fill(self, request: Fields, body: bytes) -> Fields:
        """Lay out the pack: the length of its index, the index, and the files' contents one after the other."""
        umask = os.umask(0)
        try:
            with open(PACK, "rb") as pack:
                if os.fstat(pack.fileno()).st_size != request["bytes"]:
                    raise OSError(errno.EIO, "is not whole", PACK)
                with mmap.mmap(pack.fileno(), 0, prot=mmap.PROT_READ) as whole, memoryview(whole) as view:
                    self.lay_out(view)
        finally:
            os.umask(umask)
        return {}

    def lay_out(self, pack: memoryview) -> None:
        at = LENGTH.size + LENGTH.unpack_from(pack)[0]
        for name, mode, modified_ns, content in json.loads(bytes(pack[LENGTH.size : at])):
            path = ROOT + b"/" + os.fsencode(name)
            if stat.S_ISDIR(mode):
                os.mkdir(path, stat.S_IMODE(mode))
            elif stat.S_ISLNK(mode):
                os.symlink(os.fsencode(content), path)
            else:
                fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, stat.S_IMODE(mode))
                try:
                    with pack[at : at + content] as part:
                        server.write_all(fd, part)  # pyright: ignore[reportArgumentType]
                    os.utime(fd, ns=(modified_ns, modified_ns))
                finally:
                    os.close(fd)
                at += content
            if not in_git(os.fsencode(name)):
                self.stamps[os.fsencode(name)] = stamp_of(os.lstat(path))

    def do_remember(self, request: Fields, body: bytes) -> Fields:
        """Where somebody else has filled it: as it is now."""
        self.stamps = {path: stamp_of(status) for path, status in self.walk(b"", [])}
        return {}

    def do_changes(self, request: Fields, body: bytes) -> Fields:
        """What differs from how it was filled, in one JSON value; `.git` at the top is nobody's affair."""
        changed: list[tuple[str, int, int]] = []
        unreadable: list[str] = []
        seen: set[bytes] = set()
        for path, status in self.walk(b"", unreadable):
            before, now = self.stamps.get(path), stamp_of(status)
            if now != () or path.endswith(b"/.git"):
                if before != now or now == ():
                    changed.append((os.fsdecode(path), status.st_mode, status.st_size))
            elif before:
                continue  # a file before, a folder now
            seen.add(path)
        gone = [os.fsdecode(path) for path in self.stamps if path not in seen]
        encoded = json.dumps({"changed": changed, "gone": gone, "unreadable": unreadable}).encode()
        if len(encoded) > request["max_bytes"]:
            return {"type": "error", "code": "limit", "message": "too many files were changed"}
        server.send(*server.data_frames(request["id"], encoded))
        return {}

    def walk(self, folder: bytes, unreadable: list[str]) -> Iterator[tuple[bytes, os.stat_result]]:
        """Everything below, links not followed, and nothing inside of a `.git`."""
        folders = [folder]
        while folders:
            place = folders.pop()
            try:
                if place.count(b"/") >= MAX_DEPTH - 1:
                    raise OSError(errno.ENAMETOOLONG, "lies too deep", place)
                entries = self.entries_of(os.path.join(ROOT, place))
            except OSError:  # a path that is longer than the system takes
                unreadable.append(os.fsdecode(place))
                continue
            for entry in entries:
                path = os.path.join(place, entry.name)
                if path != b".git":
                    yield path, entry.stat(follow_symlinks=False)
                    if entry.is_dir(follow_symlinks=False) and entry.name != b".git":
                        folders.append(path)

    def entries_of(self, folder: bytes) -> list[os.DirEntry[bytes]]:
        mode = stat.S_IMODE(os.lstat(folder).st_mode)
        if mode & 0o500 != 0o500:
            self.unlock(folder, mode)
        with os.scandir(folder) as entries:
            return list(entries)

    def unlock(self, path: bytes, mode: int) -> None:
        os.chmod(path, mode | 0o700)
        self.unlocked.append((path, mode))

    def do_settle(self, request: Fields, body: bytes) -> Fields:
        """Whoever looked is done: modes are again what they were."""
        while self.unlocked:
            path, mode = self.unlocked.pop()
            with contextlib.suppress(OSError):
                os.chmod(path, mode)
        return {}

    def do_fetch(self, request: Fields, body: bytes) -> Fields:
        """Of each path named in `body` a length and that many bytes: what is in the file, or where the link leads."""
        for name in json.loads(body):
            path = os.path.join(ROOT, os.fsencode(name))
            status = os.lstat(path)
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(path)
                server.send(*server.data_frames(request["id"], LENGTH.pack(len(target)) + target))
            else:
                if not status.st_mode & 0o400:
                    self.unlock(path, stat.S_IMODE(status.st_mode))
                self.send_file(request["id"], path)
        return {}

    def send_file(self, request_id: int, path: bytes) -> None:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            rest = os.fstat(fd).st_size
            server.send(server.frame({"id": request_id, "type": "data"}, LENGTH.pack(rest)))
            while rest and (data := os.read(fd, min(rest, server.CHUNK_BYTES))):
                server.send(server.frame({"id": request_id, "type": "data"}, data))
                rest -= len(data)
        finally:
            os.close(fd)

    def do_hold(self, request: Fields, body: bytes) -> Fields:
        """Every process stops where it stands, and none is started until the release."""
        self.stopped_before = {pid for pid in others() if is_stopped(pid)}
        self.held = True
        give_up_at = time.monotonic() + HOLD_TIMEOUT_S
        while True:
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGSTOP)
            moving = {pid for pid in others() if not is_stopped(pid)}
            if not moving:
                return {}
            if time.monotonic() > give_up_at:
                self.do_release(request, body)
                return {"type": "error", "code": "limit", "message": "the processes do not stand still"}
            # A child that a shell started by vfork and that stopped before its exec holds the shell in the kernel.
            for pid in set(others()) - moving - self.stopped_before:
                if parent_of(pid) in moving:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
            time.sleep(0.001)  # it stops when it next leaves the kernel, and nothing says when

    def do_release(self, request: Fields, body: bytes) -> Fields:
        for pid in others():
            if pid not in self.stopped_before:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self.held = False
        late, self.late = self.late, []
        for each in late:
            self.answer(*each)
        return {}

    def do_relay(self, request: Fields, body: bytes) -> Fields:
        """Listen on loopback; who connects is told by `accept`."""
        import socket  # a sandbox without a network starts sooner without it

        self.listener = socket.create_server(("127.0.0.1", server.RELAY_PORT))
        return {"port": server.RELAY_PORT}

    def do_accept(self, request: Fields, body: bytes) -> None:
        """Answered when somebody connects; the request's id is the connection's number."""
        self.selector.register(
            self.listener, selectors.EVENT_READ, functools.partial(self.on_connection, request["id"])
        )

    def on_connection(self, request_id: int) -> None:
        self.selector.unregister(self.listener)
        connection, _ = self.listener.accept()
        self.services[request_id] = Connection(request_id, connection)
        server.send(server.frame({"id": request_id, "type": "end"}))


def stamp_of(status: os.stat_result) -> tuple[int, ...]:
    """Equal ones, and nothing was changed in between. Of a folder only that it is one."""
    if stat.S_ISDIR(status.st_mode):
        return ()
    return status.st_ctime_ns, status.st_mtime_ns, status.st_size, status.st_ino, status.st_mode


def in_git(path: bytes) -> bool:
    return path == b".git" or path.startswith(b".git/")


def others() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and name != "1"]


def parent_of(pid: int) -> int:
    """0 for one that has ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b") ")[2].split()[1])
    return 0


def is_stopped(pid: int) -> bool:
    """All of its threads, or it has ended."""
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat", "rb") as file:
                if file.read().rpartition(b") ")[2][:1] not in b"TtZX":
                    return False
    return True


if __name__ == "__main__":
    Server(float(sys.argv[1]), bytes.fromhex(sys.argv[2])).run()
