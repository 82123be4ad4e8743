"""The tool server: PID 1 of every sandbox. One file, standard library only, run as `python3 -S -E server.py`.

It answers framed requests that arrive on standard input, on standard output. Commands run as its children, under the
same user id, and are hostile: nothing they do may stop it, read its memory, or write into its stream.

A frame is two unsigned 32-bit big-endian lengths, a JSON header of the first length, a body of the second.
  request   {"id": n, "op": name, ...arguments}             body: standard input, or a file's content
  reply     {"id": n, "type": "data"}                       any number of them, each with a part of the result
            {"id": n, "type": "end", ...result}             the last one
            {"id": n, "type": "error", "code": c, "message": m}   instead of it; c is "path", "limit" or "request"
Requests are answered as they finish. The end of the input ends the server, and with it the container.

One thread and one selector do everything but the relay, so that no lock is needed and the working folder can be set
around a spawn.
"""

from __future__ import annotations

import collections
import contextlib
import ctypes
import errno
import functools
import json
import os
import selectors
import signal
import stat
import struct
import sys
import time

# For the type checker alone: evaluated never, so that importing `typing` costs a sandbox nothing.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from typing import Any, NoReturn

    Fields = dict[str, Any]  # of a frame's header

LENGTHS = struct.Struct("!II")
MAX_HEADER_BYTES = 1 << 20  # a command line and its environment
MAX_BODY_BYTES = 64 << 20  # the largest patch that the other side takes out of a sandbox
CHUNK_BYTES = 64 << 10  # a pipe's capacity, so one read empties it
PIPE_MAX_BYTES = 1 << 20  # /proc/sys/fs/pipe-max-size: more cannot be waiting when a shell has exited
COOKIE = "MUSTER_CALL"  # in the environment of every child: finds those that left the process group
MAX_LEFT = 10  # as many names of what a command left running as anybody reads
MAX_JOBS = 8  # that run: a server, its database, a build, a watcher of tests; as many that have ended are kept, too
SWEEP_TIMEOUT_S = 2.0  # for ending all but the jobs; who is not ended by then takes them along
KILL_ROUNDS = 100  # a fork bomb needs several; bounded, because a server that loops for ever answers nobody
ENVIRONMENT = dict(os.environ)  # decoded once: that takes longer than all else of a spawn
RELAY_PORT = 3128  # the customary port of a web proxy
PR_SET_DUMPABLE, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 4, 22, 2
LIMITS = (errno.EAGAIN, errno.ENOMEM, errno.ENOSPC, errno.EMFILE, errno.E2BIG)


def frame(header: Fields, body: bytes = b"") -> bytes:
    encoded = json.dumps(header).encode()
    return LENGTHS.pack(len(encoded), len(body)) + encoded + body


def data_frames(request_id: int, content: bytes) -> Iterator[bytes]:
    for start in range(0, len(content), CHUNK_BYTES):
        yield frame({"id": request_id, "type": "data"}, content[start : start + CHUNK_BYTES])


def send(*frames: bytes) -> None:
    """Write whole frames. Blocks while the other side does not read; the alarm still ends the server then."""
    write_all(1, b"".join(frames))


def write_all(fd: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(fd, rest) :]


def take_requests(buffer: bytearray) -> Iterator[tuple[Fields, bytes]]:
    """Whole requests, off the front of `buffer`."""
    while len(buffer) >= LENGTHS.size:
        header_bytes, body_bytes = LENGTHS.unpack_from(buffer)
        if header_bytes > MAX_HEADER_BYTES or body_bytes > MAX_BODY_BYTES:
            sys.exit("a frame is larger than the protocol allows")
        start = LENGTHS.size + header_bytes
        if len(buffer) < start + body_bytes:
            return
        header = json.loads(buffer[LENGTHS.size : start])
        body = bytes(buffer[start : start + body_bytes])
        del buffer[: start + body_bytes]
        yield header, body


class Output:
    """Keeps head and tail of a stream within a limit. What `take` returns is to be sent at once."""

    def __init__(self, limit: int) -> None:
        self.head_room = limit // 2
        self.tail_limit = limit - self.head_room
        self.tail: collections.deque[bytes] = collections.deque()
        self.tail_bytes = 0
        self.dropped_bytes = 0

    def take(self, data: bytes) -> bytes:
        head, rest = data[: self.head_room], data[self.head_room :]
        self.head_room -= len(head)
        if rest:
            self.tail.append(rest)
            self.tail_bytes += len(rest)
            while self.tail and self.tail_bytes - len(self.tail[0]) >= self.tail_limit:
                dropped = len(self.tail.popleft())
                self.tail_bytes -= dropped
                self.dropped_bytes += dropped
        return head

    def finish(self) -> bytes:
        """The tail, cut to the limit. Before this, `tail` may hold one chunk more than it."""
        excess = max(0, self.tail_bytes - self.tail_limit)
        self.dropped_bytes += excess
        return b"".join(self.tail)[excess:]


class Child:
    """A running child, its process group, and the pipe that both its outputs go to."""

    def __init__(self, request: Fields, stdin: bytes = b"") -> None:
        self.id = request["id"]
        self.cookie = f"{COOKIE}={self.id}.{os.urandom(8).hex()}"
        self.started = time.monotonic()
        with standard_input(stdin) as source:
            self.pid, self.pipe = spawn(request, self.cookie, source, merged=True)

    def take(self, data: bytes) -> None:
        raise NotImplementedError

    def read(self) -> bytes | None:
        """Take what is in the pipe: the data, b"" when all have closed it, None when it is empty for now."""
        try:
            data = os.read(self.pipe, CHUNK_BYTES)
        except BlockingIOError:
            return None
        self.take(data)
        return data

    def drain(self) -> None:
        """Take what has been said by now, and not for ever what is being said."""
        drained = 0
        while drained < PIPE_MAX_BYTES and (data := self.read()):
            drained += len(data)

    def finish(self, status: int) -> Fields:
        """The shell has exited: take what it left in the pipe, and judge. Others who hold the pipe lose it."""
        self.drain()
        os.close(self.pipe)
        code = os.waitstatus_to_exitcode(status)
        left = [name for pid in processes_with(self.cookie) if (name := name_of(pid))]
        return {
            "exit_code": code if code >= 0 else 128 - code,
            "left": left[:MAX_LEFT],
            "duration_s": time.monotonic() - self.started,
        }


class Command(Child):
    """One that somebody waits for."""

    def __init__(self, request: Fields, stdin: bytes) -> None:
        super().__init__(request, stdin)
        self.output = Output(request["max_output_bytes"])
        self.deadline = self.started + request["timeout_s"]
        self.timed_out = False

    def take(self, data: bytes) -> None:
        head = self.output.take(data)
        if head:
            send(frame({"id": self.id, "type": "data"}, head))

    def end(self, status: int) -> None:
        verdict = self.finish(status)
        tail = self.output.finish()
        verdict.update(timed_out=self.timed_out, truncated_bytes=self.output.dropped_bytes)
        last = frame({"id": self.id, "type": "end", **verdict})
        send(*data_frames(self.id, tail), last)  # one write: one message to wait for at the other end


class Job(Child):
    """One in the background. The end of its output waits here, and whoever asks says from which byte on: what is asked
    for twice is told twice, so that nothing is lost with an answer that nobody heard."""

    def __init__(self, request: Fields) -> None:
        super().__init__(request)
        self.limit = request["max_output_bytes"]
        self.kept = bytearray()
        self.total_bytes = 0
        self.verdict: Fields = {}  # when it has ended
        self.waiting: dict[int, tuple[Fields, float]] = {}  # request -> all of it, and until when it waits for the end

    def take(self, data: bytes) -> None:
        self.total_bytes += len(data)
        self.kept += data
        del self.kept[: max(0, len(self.kept) - self.limit)]

    def tell(self, request: Fields) -> None:
        self.waiting.pop(request["id"], None)
        if not self.verdict:
            self.drain()
        first = self.total_bytes - len(self.kept)
        start = min(max(request["start_byte"], first), self.total_bytes)
        part = bytes(self.kept[start - first : start - first + request["max_bytes"]])
        told = {"start_byte": start, "duration_s": time.monotonic() - self.started, **self.verdict}
        send(*data_frames(request["id"], part), frame({"id": request["id"], "type": "end", **told}))

    def end(self, status: int) -> None:
        self.verdict = self.finish(status)
        for request, _ in list(self.waiting.values()):
            self.tell(request)


@contextlib.contextmanager
def standard_input(content: bytes) -> Generator[int]:
    """A descriptor to read `content` from."""
    source = os.memfd_create("stdin") if content else os.open(os.devnull, os.O_RDONLY)
    try:
        if content:
            write_all(source, content)
            os.lseek(source, 0, os.SEEK_SET)
        yield source
    finally:
        os.close(source)


def spawn(request: Fields, cookie: str, source: int, merged: bool) -> tuple[int, int]:
    """Start a child in a session of its own, reading from `source`; (pid, read end of its output).

    `merged`: standard error goes the same way; else nowhere.
    """
    name, _, value = cookie.partition("=")
    environment = {**ENVIRONMENT, "PWD": request["cwd"], **request["env"], name: value}
    read_end, write_end = os.pipe()
    os.set_blocking(read_end, False)
    errors = os.dup(write_end) if merged else os.open(os.devnull, os.O_WRONLY)
    try:
        os.chdir(request["cwd"])
        redirections = [(os.POSIX_SPAWN_DUP2, fd, to) for fd, to in ((source, 0), (write_end, 1), (errors, 2))]
        # Python ignores SIGPIPE, and children inherit that: `yes | head` would never end.
        defaults = [signal.SIGPIPE, signal.SIGXFSZ]
        argv = request["argv"]
        pid = os.posix_spawn(
            argv[0], argv, environment, file_actions=redirections, setsid=True, setsigdef=defaults, setsigmask=[]
        )
    except BaseException:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
        os.close(errors)
        os.chdir("/")
    return pid, read_end


class Service:
    """A child that is talked to for as long as it lives: a language server, say.

    Its output is read only while somebody waits for it, so that the pipe itself holds back one that says too much.
    """

    def __init__(self, request: Fields) -> None:
        self.id = request["id"]
        self.cookie = f"{COOKIE}={self.id}.{os.urandom(8).hex()}"
        source, self.input = os.pipe()
        os.set_blocking(self.input, False)
        try:
            self.pid, self.output = spawn(request, self.cookie, source, merged=False)
        except BaseException:
            os.close(self.input)
            raise
        finally:
            os.close(source)
        self.unsent: collections.deque[tuple[int, memoryview]] = collections.deque()
        self.waiting: int | None = None  # the request that gets the next output
        self.exited = False

    def write(self) -> None:
        """As much as the child takes now; each request is answered when all of it is in the pipe."""
        while self.unsent:
            request_id, rest = self.unsent[0]
            try:
                rest = rest[os.write(self.input, rest) :]
            except BlockingIOError:
                return
            except BrokenPipeError:
                rest = rest[:0]  # whoever reads hears that it has ended
            if rest:
                self.unsent[0] = (request_id, rest)
            else:
                self.unsent.popleft()
                send(frame({"id": request_id, "type": "end"}))

    def read(self) -> None:
        """What is there goes to whoever waits for it; nothing but the end is told as the end."""
        try:
            data = os.read(self.output, CHUNK_BYTES)
        except BlockingIOError:
            return
        request_id, self.waiting = self.waiting, None
        if request_id is not None:
            parts = data_frames(request_id, data)
            send(*parts, frame({"id": request_id, "type": "end", "ended": not data}))

    def close(self) -> None:
        os.close(self.input)
        os.close(self.output)
        for request_id in [*[waiting for waiting, _ in self.unsent], *filter(None, [self.waiting])]:
            send(frame({"id": request_id, "type": "end", "ended": True}))


def kill(pid: int, group: bool = False) -> bool:
    try:
        (os.killpg if group else os.kill)(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def processes() -> Iterator[tuple[int, int, list[bytes]]]:
    """All that live but ourselves, with session and environment: nothing, where a process made that unreadable. One
    that becomes another program has none for a moment, and is looked at again."""
    for name in {*filter(str.isdigit, os.listdir("/proc"))} - {"1"}:
        session, environment = b"0", [b""]
        try:
            for _ in range(5):
                with open(f"/proc/{name}/stat", "rb") as file:
                    state, _, _, session = file.read().rpartition(b") ")[2].split()[:4]
                if state in b"ZX":
                    raise FileNotFoundError
                with open(f"/proc/{name}/environ", "rb") as file:
                    environment = file.read().split(b"\0")
                if environment != [b""]:
                    break
                time.sleep(0.001)
        except FileNotFoundError:
            continue
        except OSError:
            pass
        yield int(name), int(session), environment


def processes_with(cookie: str) -> Iterator[int]:
    return (pid for pid, _, environment in processes() if cookie.encode() in environment)


def processes_of_none(jobs: list[Job]) -> Iterator[int]:
    """Who is neither in the session of one of them nor carries its cookie. One that copies a cookie lives as long as
    the job does, which it could have had by being started from it."""
    sessions, cookies = {job.pid for job in jobs}, {job.cookie.encode() for job in jobs}
    return (pid for pid, session, has in processes() if session not in sessions and cookies.isdisjoint(has))


def name_of(pid: int) -> str:
    """The command line of a process; empty for one that has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read(200).replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""


def kill_tree(pid: int | None, cookie: str) -> None:
    """Group first (its leader has not been collected, or `pid` is None), then whoever carries the cookie, round after
    round while they fork."""
    if pid is not None:
        kill(pid, group=True)
    for _ in range(KILL_ROUNDS):
        if not [each for each in processes_with(cookie) if kill(each)]:
            break


def do_read(request: Fields, body: bytes) -> Fields:
    # O_NONBLOCK: opening a named pipe must not wait for a writer.
    fd = os.open(request["path"], os.O_RDONLY | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", request["path"])
        offset, rest = request["offset_bytes"], request["max_bytes"]
        while rest > 0 and (data := os.pread(fd, min(rest, CHUNK_BYTES), offset)):
            send(frame({"id": request["id"], "type": "data"}, data))
            offset, rest = offset + len(data), rest - len(data)
    finally:
        os.close(fd)
    return {}


def do_write(request: Fields, body: bytes) -> Fields:
    path = os.path.realpath(request["path"])  # write what a link points to, as an editor would
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "it is a folder", request["path"])
    os.makedirs(os.path.dirname(path), exist_ok=True)
    mode = request["mode"]
    if mode is None:
        mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o644
    temporary = f"{os.path.dirname(path)}/.{os.urandom(8).hex()}.muster"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        write_all(fd, body)
        os.fchmod(fd, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    finally:
        os.close(fd)
    return {}


def do_stat(request: Fields, body: bytes) -> Fields:
    return {"entry": describe(request["path"], os.stat(request["path"]))}


def do_resolve(request: Fields, body: bytes) -> Fields:
    return {"path": os.fsencode(os.path.realpath(request["path"])).decode("utf-8", "backslashreplace")}


def do_list(request: Fields, body: bytes) -> Fields:
    folder: str = request["path"]
    entries: list[list[Any]] = []
    for name in sorted(os.listdir(folder))[: request["limit"]]:
        path = os.path.join(folder, name)
        try:
            entries.append(describe(path, os.lstat(path)))
        except FileNotFoundError:
            continue  # removed since the folder was read
    send(*data_frames(request["id"], json.dumps(entries).encode()))
    return {}


def describe(path: str, status: os.stat_result) -> list[Any]:
    # Names need not be UTF-8; what goes out must be.
    shown = os.fsencode(path).decode("utf-8", "backslashreplace")
    return [shown, status.st_mode, status.st_size, status.st_mtime]


def do_relay(request: Fields, body: bytes) -> Fields:
    """Listen on loopback, and join every connection to the unix socket at `path`."""
    global socket, threading  # a sandbox without a network starts sooner without them, and stays smaller
    import socket
    import threading

    listener = socket.create_server(("127.0.0.1", RELAY_PORT))
    threading.Thread(target=accept_for_ever, args=(listener, request["path"]), daemon=True).start()
    return {"port": RELAY_PORT}


def accept_for_ever(listener: socket.socket, path: str) -> None:
    while True:
        near = far = None  # a socket closes with its last reference
        try:
            near, _ = listener.accept()
            far = socket.socket(socket.AF_UNIX)
            far.connect(path)
            for source, target in ((near, far), (far, near)):
                threading.Thread(target=pump, args=(source, target), daemon=True).start()
        except (OSError, RuntimeError):  # nobody listens, or commands have taken all descriptors or processes for now
            time.sleep(0.1)


def pump(source: socket.socket, target: socket.socket) -> None:
    """One direction of one connection. Its end is passed on; the sockets close with their last reference."""
    try:
        while data := source.recv(CHUNK_BYTES):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)  # wakes the other direction, which a close would not


class Server:
    def __init__(self, lifetime_s: float, call_filter: bytes) -> None:
        self.call_filter = call_filter
        self.commands: dict[int, Command] = {}  # by process id
        self.services: dict[int, Service] = {}  # by the request that started them
        self.jobs: dict[int, Job] = {}  # likewise, the oldest first
        self.sweep_wanted = False
        self.ends_at = time.monotonic() + lifetime_s
        self.selector = selectors.DefaultSelector()
        self.input = bytearray()
        self.operations: dict[str, Callable[[Fields, bytes], Fields | None]] = {
            "exec": self.do_exec,
            "spawn": self.do_spawn,
            "peek": self.do_peek,
            "start": self.do_start,
            "send": self.do_send,
            "receive": self.do_receive,
            "stop": self.do_stop,
            "cancel": self.do_cancel,
            "kill_all": self.do_kill_all,
            "end_in": self.do_end_in,
            "read": do_read,
            "write": do_write,
            "stat": do_stat,
            "resolve": do_resolve,
            "list": do_list,
            "relay": do_relay,
        }

    def run(self) -> NoReturn:
        wake_in = self.prepare_process()
        self.selector.register(0, selectors.EVENT_READ, self.on_input)
        self.selector.register(wake_in, selectors.EVENT_READ, lambda: os.read(wake_in, CHUNK_BYTES))
        send(frame({"id": 0, "type": "ready"}))
        while True:
            for key, _ in self.selector.select(self.next_deadline_s()):
                key.data()
            self.reap()
            self.enforce_deadlines()

    def prepare_process(self) -> int:
        """Nobody inside may trace us or open our descriptors, and no signal from inside may end us."""
        if ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
            sys.exit("cannot become non-dumpable")
        if self.call_filter:
            set_call_filter(self.call_filter)
        # For PID 1 of a namespace the kernel drops signals that have the default action. Python's SIGINT has not.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        wake_in, wake_out = os.pipe()
        os.set_blocking(wake_in, False)
        os.set_blocking(wake_out, False)
        signal.set_wakeup_fd(wake_out, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # a handler, so that the wake-up is written
        signal.signal(signal.SIGALRM, self.on_alarm)
        self.on_alarm()
        return wake_in

    def on_alarm(self, *_: object) -> None:
        """The self-destruct timer. It interrupts even a blocked write; a forged SIGALRM only winds it up again."""
        left_s = self.ends_at - time.monotonic()
        if left_s <= 0:
            os._exit(0)
        signal.setitimer(signal.ITIMER_REAL, left_s)

    def on_input(self) -> None:
        data = os.read(0, CHUNK_BYTES)  # room for much more would be mapped and unmapped each time
        if not data:
            os._exit(0)  # nobody is left to answer to; the kernel kills the rest of the container
        self.input += data
        for request, body in take_requests(self.input):
            self.answer(request, body)

    def answer(self, request: Fields, body: bytes) -> None:
        try:
            result = self.operations[request["op"]](request, body)
        except OSError as error:
            what = f"{error.filename}: {error.strerror}" if error.filename else str(error.strerror or error)
            if error.errno == errno.E2BIG:
                what = "a command line has at most 128 KiB: write more to a file, and run that"
            result = {"type": "error", "code": "limit" if error.errno in LIMITS else "path", "message": what[:1000]}
        except RecursionError:
            result = {"type": "error", "code": "path", "message": "a path of too many folders"}
        except (KeyError, TypeError, ValueError, OverflowError) as error:  # a byte of zero, a number of 70 bits
            result = {"type": "error", "code": "request", "message": f"that cannot be done: {error}"[:1000]}
        if result is not None:
            send(frame({"type": "end", **result, "id": request["id"]}))

    def do_exec(self, request: Fields, body: bytes) -> None:
        try:
            command = Command(request, body)
        except BlockingIOError:
            # Out of processes. What earlier commands left running has no claim to them, unless one still runs.
            if self.commands:
                raise
            self.sweep()
            command = Command(request, body)
        self.commands[command.pid] = command
        self.selector.register(command.pipe, selectors.EVENT_READ, lambda: self.on_output(command))

    def on_output(self, command: Command) -> None:
        if self.commands.get(command.pid) is not command:
            return  # it was swept by a request of the same round, and its pipe is closed
        if command.read() == b"":
            self.selector.unregister(command.pipe)  # closed by all; the exit itself comes by SIGCHLD

    def do_spawn(self, request: Fields, body: bytes) -> Fields:
        ended = [job.id for job in self.jobs.values() if job.verdict]
        if len(self.jobs) - len(ended) >= MAX_JOBS:
            raise OSError(errno.EMFILE, f"{MAX_JOBS} commands run in the background already")
        for number in ended[: max(0, len(ended) - MAX_JOBS)]:
            del self.jobs[number]
        job = self.jobs[request["id"]] = Job(request)
        self.selector.register(job.pipe, selectors.EVENT_READ, lambda: self.on_job_output(job))
        return {}

    def on_job_output(self, job: Job) -> None:
        if not job.verdict and job.read() == b"":
            self.selector.unregister(job.pipe)

    def do_peek(self, request: Fields, body: bytes) -> None:
        job = self.jobs[request["target"]]
        if job.verdict or request["wait_s"] <= 0:
            job.tell(request)
        else:
            job.waiting[request["id"]] = (request, time.monotonic() + request["wait_s"])

    def do_start(self, request: Fields, body: bytes) -> Fields:
        self.services[request["id"]] = Service(request)
        return {}

    def do_send(self, request: Fields, body: bytes) -> None:
        service = self.services[request["target"]]
        service.unsent.append((request["id"], memoryview(body)))
        self.watch(service)

    def do_receive(self, request: Fields, body: bytes) -> None:
        service = self.services[request["target"]]
        service.waiting = request["id"]
        self.watch(service)

    def do_stop(self, request: Fields, body: bytes) -> Fields:
        service = self.services.pop(request["target"], None)
        if service is not None:
            for pipe in (service.input, service.output):
                with contextlib.suppress(KeyError):
                    self.selector.unregister(pipe)
            kill_tree(None if service.exited else service.pid, service.cookie)
            service.close()
        job = self.jobs.get(request["target"])
        if job is not None:
            kill_tree(None if job.verdict else job.pid, job.cookie)
        return {}

    def watch(self, service: Service) -> None:
        """Its pipes, as long as there is something to write, or somebody to read for."""
        wanted = (
            (service.input, selectors.EVENT_WRITE, bool(service.unsent), service.write),
            (service.output, selectors.EVENT_READ, service.waiting is not None, service.read),
        )
        for pipe, event, is_wanted, move in wanted:
            is_watched = pipe in self.selector.get_map()
            if is_wanted and not is_watched:
                self.selector.register(pipe, event, functools.partial(self.on_service, service, move))
            elif is_watched and not is_wanted:
                self.selector.unregister(pipe)

    def on_service(self, service: Service, move: Callable[[], None]) -> None:
        if self.services.get(service.id) is service:  # else it was stopped by a request of the same round
            move()
            self.watch(service)

    def do_cancel(self, request: Fields, body: bytes) -> Fields:
        for command in list(self.commands.values()):
            if command.id == request["target"]:
                self.end(command)
        for job in self.jobs.values():
            job.waiting.pop(request["target"], None)
        if request["target"] in self.jobs:  # who started it has never heard its number
            self.do_stop(request, body)
        return {}

    def do_kill_all(self, request: Fields, body: bytes) -> Fields:
        self.sweep_all()
        return {}

    def do_end_in(self, request: Fields, body: bytes) -> Fields:
        """Bring the end nearer. It is never put off: reapers outside go by the latest that was said at the start."""
        self.ends_at = min(self.ends_at, time.monotonic() + request["lifetime_s"])
        self.on_alarm()
        return {}

    def reap(self) -> None:
        """Collect every dead child, ours or orphaned, and answer for ours."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                break
            if pid == 0:
                break
            command = self.commands.pop(pid, None)
            if command is not None:
                with contextlib.suppress(KeyError):  # its pipe was closed by all before it ended
                    self.selector.unregister(command.pipe)
                command.end(status)
            for job in self.jobs.values():
                if job.pid == pid and not job.verdict:
                    with contextlib.suppress(KeyError):
                        self.selector.unregister(job.pipe)
                    job.end(status)
            for service in self.services.values():
                service.exited = service.exited or service.pid == pid
        if self.sweep_wanted and not self.commands:
            self.sweep()

    def next_deadline_s(self) -> float:
        deadlines = [command.deadline for command in self.commands.values()]
        deadlines += [until for job in self.jobs.values() for _, until in job.waiting.values()]
        return max(0.0, min([self.ends_at, *deadlines]) - time.monotonic())

    def enforce_deadlines(self) -> None:
        now = time.monotonic()
        for command in list(self.commands.values()):
            if command.deadline <= now:
                command.timed_out = True
                command.deadline = self.ends_at
                self.end(command)
        for job in self.jobs.values():
            for request, until in list(job.waiting.values()):
                if until <= now:
                    job.tell(request)

    def end(self, command: Command) -> None:
        """What escapes even this is the sweep's."""
        kill_tree(command.pid, command.cookie)
        self.sweep_wanted = True

    def sweep(self) -> None:
        """Kill what commands have left, but no job that runs; all of it, where that does not come to an end."""
        self.sweep_wanted = False
        jobs = [job for job in self.jobs.values() if not job.verdict]
        give_up_at = time.monotonic() + SWEEP_TIMEOUT_S
        while jobs and time.monotonic() < give_up_at:
            strangers = list(processes_of_none(jobs))
            if not strangers:
                return
            for pid in strangers:
                kill(pid)
            time.sleep(0.001)  # a killed process stays until the kernel has taken it apart
            self.reap()
        self.sweep_all()

    def sweep_all(self) -> None:
        """Kill everything but ourselves, which nothing escapes: not a new session, nor an emptied environment."""
        self.sweep_wanted = False
        while kill(-1):
            try:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # orphans become our children, so one of them will end
            except ChildProcessError:
                break  # an operator's own exec: killed, but not ours to wait for
            self.reap()


def set_call_filter(program: bytes) -> None:
    """For us and all that we start, for good, on top of what filters us already: instructions of classic BPF."""
    steps = ctypes.create_string_buffer(program, len(program))
    whole = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(steps)))
    if ctypes.CDLL(None).prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_void_p(ctypes.addressof(whole))) != 0:
        sys.exit("cannot filter system calls")


if __name__ == "__main__":
    Server(float(sys.argv[1]), bytes.fromhex(sys.argv[2])).run()
