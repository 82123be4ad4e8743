"""The grammar's tree of a shell text, from a process that has nothing to lose.

The grammar is native code, and the text is a model's. So a process without keys, files or sockets parses it
(`grammar.py`), within limits on time and memory. What it answers is as untrusted as the text: nothing is taken but a
tree over that very text, and `syntax` checks each of its nodes against it.

One process serves all calls of a worker, and is replaced when it dies. Decision 0039 has the reasons.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

from envelope.logs import get_logger

from .grammar import FLAG_BITS, HAS_ERROR, LENGTH, MISSING, NAMED, NODE_BYTES, NODE_NUMBERS

MAX_WAIT_S = 20.0  # on a machine that is busy with other things; the process bounds its own processor time
MAX_NODES_PER_BYTE = 8  # with what the grammar thinks to be missing
MAX_FIRST_BYTES = 64 * 1024

_log = get_logger("permissions")


@dataclass(slots=True, eq=False)
class Node:
    """As tree-sitter's of the same name, as far as anybody here asks."""

    type: str
    start_byte: int
    end_byte: int
    is_named: bool
    is_missing: bool
    id: int
    source: bytes = field(repr=False)
    parent: Node | None = field(default=None, repr=False)
    children: list[Node] = field(default_factory=list["Node"], repr=False)
    has_error: bool = False  # of its own or anywhere below; some are in no node that is shown

    @property
    def is_error(self) -> bool:
        return self.type == "ERROR"

    @property
    def named_children(self) -> list[Node]:
        return [child for child in self.children if child.is_named]

    @property
    def text(self) -> bytes:
        return self.source[self.start_byte : self.end_byte]


class NoTree(Exception):
    """The process died of the text, was too slow, or answered with no tree over it."""


class TakesTooLong(NoTree):
    """The text has used up its processor time, as it would again."""


class Parser:
    """Asks the process, and starts another one when it has died. Threads may share it."""

    def __init__(self) -> None:
        self._process: _Process | None = None
        self._lock = threading.Lock()
        os.register_at_fork(after_in_child=self._forget)
        atexit.register(self.close)

    def parse(self, source: bytes) -> Node:
        """The root; `NoTree` when there is none. Blocks for the fifth of a millisecond that it takes, or the worst
        texts for a second."""
        with self._lock:
            earlier = self._process
            try:
                return self._asked(earlier or _Process(), source)
            except (EOFError, OSError) as e:
                if earlier is None or isinstance(e, TimeoutError):
                    raise NoTree from e
            try:
                return self._asked(_Process(), source)  # what an earlier text did to it is not this one's fault
            except (EOFError, OSError) as e:
                raise NoTree from e

    def close(self) -> None:
        with self._lock:
            if self._process is not None:
                self._process.end()
                self._process = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process else None

    def _asked(self, process: _Process, source: bytes) -> Node:
        self._process = None
        try:
            root = process.ask(source)
        except BaseException as e:
            exit_code = process.end()
            _log.warning("shell_parser_died", exit_code=exit_code, text_bytes=len(source))
            if exit_code == -signal.SIGPROF:
                raise TakesTooLong from e
            raise
        self._process = process
        return root

    def _forget(self) -> None:
        """Its pipes are the parent's, whose answers are for other texts."""
        self._process, self._lock = None, threading.Lock()


class _Process:
    """One that is running and confined, and has told its kinds of nodes. `EOFError`, `OSError`: it is of no use."""

    def __init__(self) -> None:
        self._inside = subprocess.Popen(
            [sys.executable, "-S", "-m", f"{__package__}.grammar"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            cwd="/",
            env={"PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path))), "PYTHONSAFEPATH": "1"},
        )
        assert self._inside.stdin and self._inside.stdout
        self._to, self._from = self._inside.stdin.fileno(), self._inside.stdout.fileno()
        self._ready = select.poll()
        self._ready.register(self._from, select.POLLIN)
        is_ready = False
        try:
            first = json.loads(self._answer(MAX_FIRST_BYTES))
            self._kinds: list[str] = first["kinds"]
            is_ready = True
            if not first["is_confined"]:
                _log.warning("shell_parser_is_not_confined", hint="this kernel has no seccomp filter")
        finally:
            if not is_ready:
                _log.error("shell_parser_did_not_start", exit_code=self.end())

    @property
    def pid(self) -> int:
        return self._inside.pid

    def ask(self, source: bytes) -> Node:
        question = LENGTH.pack(len(source)) + source
        if os.write(self._to, question) != len(question):
            raise EOFError  # it has ended: a pipe holds more than the longest text
        told = self._answer((len(source) + 1) * MAX_NODES_PER_BYTE * NODE_BYTES)
        return decoded(array("I", told[: len(told) // NODE_BYTES * NODE_BYTES]), self._kinds, source)

    def _answer(self, max_bytes: int) -> bytes:
        until_s = time.monotonic() + MAX_WAIT_S
        length = LENGTH.unpack(self._read(LENGTH.size, until_s))[0]
        if length > max_bytes:
            raise EOFError
        return self._read(length, until_s)

    def _read(self, length: int, until_s: float) -> bytes:
        told = bytearray()
        while len(told) < length:
            if not self._ready.poll(max(0.0, until_s - time.monotonic()) * 1000):
                raise TimeoutError
            more = os.read(self._from, length - len(told))
            if not more:
                raise EOFError
            told += more
        return bytes(told)

    def end(self) -> int:
        self._inside.kill()
        assert self._inside.stdin and self._inside.stdout
        self._inside.stdin.close()
        self._inside.stdout.close()
        return self._inside.wait()


def decoded(numbers: Sequence[int], kinds: Sequence[str], source: bytes) -> Node:
    """The root of what the process told of a text; `NoTree` when that is no tree over it: each node within its parent,
    behind those before it, and of whole characters."""
    root: Node | None = None
    open_nodes: list[tuple[Node, int]] = []  # with how many children are still to come
    for index in range(0, len(numbers), NODE_NUMBERS):
        kind, start, end, children = numbers[index : index + NODE_NUMBERS]
        while open_nodes and not open_nodes[-1][1]:
            open_nodes.pop()
        parent = None
        least, most = 0, len(source)
        if open_nodes:
            parent, left = open_nodes[-1]
            open_nodes[-1] = parent, left - 1
            least = parent.children[-1].end_byte if parent.children else parent.start_byte
            most = parent.end_byte
        is_whole = _is_border(source, start) and _is_border(source, end)
        if not least <= start <= end <= most or not is_whole or kind >> FLAG_BITS >= len(kinds):
            raise NoTree
        name = kinds[kind >> FLAG_BITS]
        node = Node(name, start, end, bool(kind & NAMED), bool(kind & MISSING), index, source, parent)
        if parent is not None:
            parent.children.append(node)
        elif root is None:
            root = node
        else:
            raise NoTree
        if node.is_error or node.is_missing or kind & HAS_ERROR:
            above: Node | None = node
            while above is not None and not above.has_error:
                above.has_error, above = True, above.parent
        open_nodes.append((node, children))
    if root is None or any(left for _, left in open_nodes):
        raise NoTree
    return root


def _is_border(source: bytes, at: int) -> bool:
    """Between two characters."""
    return at >= len(source) or source[at] & 0xC0 != 0x80
