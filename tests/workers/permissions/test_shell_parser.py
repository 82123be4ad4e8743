"""The process that parses shell texts: what it may do, what becomes of a text that kills it, and what of its lies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from array import array
from collections.abc import Iterator
from pathlib import Path

import pytest
import tree_sitter_bash
from hypothesis import given
from hypothesis import strategies as st
from tree_sitter import Language
from tree_sitter import Node as Theirs
from tree_sitter import Parser as TheirParser

from workers.permissions import syntax, tree
from workers.permissions.tree import Node, NoTree, Parser, decoded
from workers.tools.bash import Bash

ROOT = Path(__file__).parents[3]
PIECES = st.sampled_from(
    [
        *"ab $'\"`(){}|&;<>\n\\#=[]!*~-é",
        "<<E\n",
        "\nE\n",
        "$((",
        "))",
        "[[ ",
        " ]]",
        "case x in ",
        "esac",
        "for ",
        "if ",
        "fi",
    ]
)
TEXTS = st.lists(PIECES, max_size=40).map("".join)
KINDS = ("program", "command", "word")


@pytest.fixture
def parser() -> Iterator[Parser]:
    parser = Parser()
    yield parser
    parser.close()


def told(node: Node | Theirs) -> tuple[object, ...]:
    return (node.type, node.start_byte, node.end_byte, node.is_named, node.is_missing, node.is_error)


@given(TEXTS)
def test_its_trees_are_the_grammars(text: str):
    source = text.encode()
    waiting = [
        (syntax._PARSER.parse(source), TheirParser(Language(tree_sitter_bash.language())).parse(source).root_node)
    ]
    while waiting:
        ours, theirs = waiting.pop()
        assert told(ours) == told(theirs)
        assert ours.has_error or not theirs.has_error  # theirs may be an error without one
        assert [told(child) for child in ours.named_children] == [told(child) for child in theirs.named_children]
        assert all(child.parent is ours for child in ours.children)
        waiting += zip(ours.children, theirs.children, strict=True)


def test_it_has_no_key_and_no_file_and_is_filtered(parser: Parser, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MUSTER_CANARY", "canary-58c1")
    with open(os.devnull) as inheritable:
        os.set_inheritable(inheritable.fileno(), True)
        parser.parse(b"ls")
        proc = Path(f"/proc/{parser.pid}")
        assert b"canary-58c1" not in (proc / "environ").read_bytes()
        assert {path.name for path in (proc / "fd").iterdir()} == {"0", "1", "2"}
    status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines() if ":\t" in line)
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")


@pytest.mark.parametrize(
    "attack",
    [
        "open('/etc/passwd')",
        "os.stat('/')",
        "os.open('/', os.O_RDONLY)",
        "socket.socket(socket.AF_UNIX)",
        "os.fork()",
        "os.execv('/bin/true', ['true'])",
        "os.kill(os.getppid(), 0)",
        "os.pipe()",
        "os.dup(1)",
        "resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)",
        "libc.ptrace(16, os.getppid(), 0, 0)",
        "libc.process_vm_readv(os.getppid(), 0, 0, 0, 0, 0)",
        "libc.unshare(0x10000000)",
        "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)",
        "libc.mprotect(ctypes.addressof(page) & ~4095, 4096, 5)",
        "libc.syscall(425, 1, 0)",
    ],
)
def test_whatever_else_it_tries_ends_it(attack: str):
    code = f"""
import ctypes, mmap, os, resource, socket
from repo.bounds import confine
libc, page = ctypes.CDLL(None), ctypes.create_string_buffer(8192)
assert confine(1 << 30)
os.write(1, b"confined")
{attack}
os.write(1, b" free")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60)
    assert (done.stdout, done.returncode) == (b"confined", -signal.SIGSYS)


def test_its_memory_is_bounded():
    code = (
        "from repo.bounds import confine; confine(1 << 28); print('confined', flush=True); bytearray(1 << 29); print(1)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, timeout=60)
    assert done.stdout == b"confined\n" and done.returncode


def test_one_that_died_is_replaced_and_the_same_text_asked_again(parser: Parser):
    first = parser.parse(b"ls")
    died = parser.pid
    assert died
    os.kill(died, signal.SIGKILL)

    assert told(parser.parse(b"ls")) == told(first)
    assert parser.pid != died


def test_a_text_that_takes_too_long_has_no_tree_and_the_next_one_has(parser: Parser):
    with pytest.raises(NoTree):
        parser.parse(b"|" * 60_000)  # `syntax` lets nothing through that is a tenth as bad
    assert parser.parse(b"ls").type == "program"


@pytest.mark.parametrize("fault", ["hangs", "cannot start"])
def test_without_an_answer_a_command_is_unparsed(fault: str, monkeypatch: pytest.MonkeyPatch):
    assert [target.permission for target in Bash().targets({"command": "ls"})] == ["bash"]
    if fault == "hangs":
        syntax._PARSER.parse(b"ls")
        assert syntax._PARSER.pid
        os.kill(syntax._PARSER.pid, signal.SIGSTOP)
        monkeypatch.setattr(tree, "MAX_WAIT_S", 0.2)
    else:
        syntax._PARSER.close()
        monkeypatch.setattr(sys, "executable", "/bin/false")

    assert [target.permission for target in Bash().targets({"command": "ls"})] == ["bash_unparsed"]

    monkeypatch.undo()
    assert [target.permission for target in Bash().targets({"command": "ls"})] == ["bash"]


def test_a_process_that_forked_has_a_parser_of_its_own():
    syntax._PARSER.parse(b"ls")
    child = os.fork()
    if child == 0:
        is_apart = syntax._PARSER.pid is None and syntax._PARSER.parse(b"a;b").children[1].type == ";"
        syntax._PARSER.close()
        os._exit(0 if is_apart else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert syntax._PARSER.parse(b"ls").children[0].type == "command"


@pytest.mark.parametrize(
    "numbers",
    [
        pytest.param([], id="nothing"),
        pytest.param([0, 0, 3, 1], id="a child that is missing"),
        pytest.param([0, 0, 3, 0, 0, 0, 3, 0], id="two roots"),
        pytest.param([0, 0, 9, 0], id="beyond the text"),
        pytest.param([0, 2, 1, 0], id="an end before its start"),
        pytest.param([0, 0, 1, 1, 8, 0, 3, 0], id="a child beyond its parent"),
        pytest.param([0, 0, 3, 2, 8, 0, 1, 0, 8, 0, 1, 0], id="children over each other"),
        pytest.param([0, 0, 2, 0], id="half a character"),
        pytest.param([8 * len(KINDS), 0, 3, 0], id="a kind that there is not"),
    ],
)
def test_what_is_no_tree_over_the_text_is_refused(numbers: list[int]):
    with pytest.raises(NoTree):
        decoded(array("I", numbers), KINDS, "aé".encode())


@given(st.lists(st.tuples(*[st.integers(0, 24)] * 4), max_size=8), st.text("aé ", max_size=6))
def test_any_answer_is_a_tree_over_the_text_or_refused(rows: list[tuple[int, int, int, int]], text: str):
    source = text.encode()
    try:
        root = decoded([number for row in rows for number in row], KINDS, source)
    except NoTree:
        return
    for node, _ in syntax.walk(root):
        node.text.decode()
        at = node.start_byte
        for child in node.children:
            assert at <= child.start_byte <= child.end_byte <= node.end_byte <= len(source)
            at = child.end_byte
