"""Programs that run another command which stands in their arguments, as data, and how to find that command. Pure.

A program that is not here is judged by its own text: what `python`, `make`, `awk` or `ssh` do with their arguments is
their own language, and their sandbox's business.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass
from getopt import GetoptError, getopt
from itertools import takewhile

from .arguments import UNTOLD, is_input, operands_at
from .syntax import Unparsable
from .words import SimpleCommand, Word


@dataclass(frozen=True, slots=True)
class Runner:
    """`switches` and `long` as `getopt` takes them (`name=?`: a value stands in the same word, if at all); with one of
    `asks` it runs no command.

    `operands`: how many words of its own stand before the command. `folder`: the options that name the folder which it
    runs the command in; `moves`: it does so in another folder anyway. `alone_a_shell`: without a command, a shell.
    """

    switches: str = ""
    long: tuple[str, ...] = ()
    asks: str = ""
    operands: int = 0
    folder: tuple[str, ...] = ()
    moves: bool = False
    alone_a_shell: bool = False


_LIMITS = (
    "core data nice fsize sigpending memlock rss nofile msgqueue rtprio stack cpu nproc as locks rttime"  # of prlimit
)
_PRIVILEGES = (
    "no-new-privs nnp clear-groups keep-groups init-groups reset-env ambient-caps= inh-caps= bounding-set= ruid= euid="
    " rgid= egid= reuid= regid= groups= securebits= pdeathsig= selinux-label= apparmor-profile="
)
_VALGRIND = (
    "tool= leak-check= show-leak-kinds= track-origins= error-exitcode= log-file= log-fd= suppressions= num-callers="
    " gen-suppressions= trace-children= child-silent-after-fork= xml= xml-file= show-reachable= undef-value-errors="
    " errors-for-leak-kinds= leak-resolution= massif-out-file= callgrind-out-file= cachegrind-out-file= dump-instr="
    " collect-jumps= cache-sim= branch-sim= main-stacksize= time-unit="
)
# What `setarch` takes for an architecture, each of which may be a name of its own, too.
_ARCHITECTURES = (
    "linux32 linux64 i386 i486 i586 i686 athlon x86_64 ppc ppc32 ppc64 ppc64le s390 s390x mips mips32 mips64 sparc"
    " sparc32 sparc32bash sparc64 alpha ia64 arm armv6l armv7l armv8l armh aarch64 parisc parisc32 parisc64 hppa hppa32"
    " hppa64 riscv32 riscv64 loongarch64 uname26"
)
_SETARCH = Runner(
    "BFILRSTXZ3v",
    ("32bit", "3gb", "4gb", "uname-2.6", "addr-no-randomize", "addr-compat-layout", "read-implies-exec", "verbose"),
    alone_a_shell=True,
)

# program, or its words as far as they say that it runs another
RUNNERS: dict[str, Runner] = {
    **dict.fromkeys(("builtin", "busybox", "toybox", "chronic", "nohup", "catchsegv", "eatmydata"), Runner()),
    **dict.fromkeys(("dbus-run-session", "torsocks", "tini", "dumb-init", "unbuffer", "cmake -E time"), Runner()),
    "cgexec": Runner("g:", ("sticky",)),
    "choom": Runner("n:p:", ("adjust=", "pid="), asks="p"),
    "chroot": Runner(operands=1, moves=True, alone_a_shell=True),
    "chrt": Runner(
        "abdfimoprRT:P:D:v",
        ("all-tasks", "batch", "fifo", "idle", "other", "rr", "reset-on-fork", "verbose"),
        asks="mp",
        operands=1,
    ),
    "cmake -E chdir": Runner(operands=1, moves=True),
    "cmake -E env": Runner(long=("unset=",)),
    "command": Runner("pvV", asks="vV"),
    "doas": Runner("nu:C:"),
    "env": Runner("i0u:C:v", ("ignore-environment", "null", "unset=", "chdir=", "debug"), folder=("-C", "--chdir")),
    "exec": Runner("cla:"),
    "fakeroot": Runner("i:s:u", alone_a_shell=True),
    "faketime": Runner("mf", operands=1),
    "flock": Runner("sxunw:", ("shared", "exclusive", "nonblock", "wait=", "timeout="), operands=1),
    "gosu": Runner(operands=1),
    "ionice": Runner("c:n:tp:P:u:", ("class=", "classdata=", "ignore"), asks="pPu"),
    "nice": Runner("n:", ("adjustment=",)),
    "numactl": Runner(
        "ai:N:C:m:l", ("all", "interleave=", "cpunodebind=", "physcpubind=", "membind=", "localalloc", "preferred=")
    ),
    "perf record": Runner("agF:e:c:o:", ("call-graph=", "output=", "event=", "all-cpus")),
    "perf stat": Runner("addBe:r:o:x:", ("event=", "repeat=", "output=", "detailed", "all-cpus")),
    "prlimit": Runner(
        "cdefilmnqrstuvxyp:o:",
        ("pid=", "output=", "noheadings", "raw", "verbose", *(f"{name}=?" for name in _LIMITS.split())),
        asks="p",
    ),
    "setarch": _SETARCH,
    **{f"{before}{name}": _SETARCH for name in _ARCHITECTURES.split() for before in ("", "setarch ")},
    "setpriv": Runner("d", tuple(_PRIVILEGES.split()), asks="d"),
    "setsid": Runner("cfw", ("ctty", "fork", "wait")),
    "ssh-agent": Runner("csdDkUTxa:E:O:P:t:"),
    "stdbuf": Runner("i:o:e:", ("input=", "output=", "error=")),
    "strace": Runner("cCdfFhiqrtTvVxyYe:o:p:s:u:E:P:S:I:a:b:O:X:"),
    "sudo": Runner(
        "AbEHknPSu:g:p:C:h:T:R:D:",
        ("preserve-env", "user=", "group=", "set-home", "non-interactive"),
        folder=("-D",),
    ),
    "taskset": Runner("acp", ("all-tasks", "cpu-list"), asks="p", operands=1),
    "time": Runner("pvaf:o:", ("portability", "verbose", "append", "format=", "output=")),
    "timeout": Runner("k:s:v", ("kill-after=", "signal=", "preserve-status", "foreground", "verbose"), operands=1),
    "valgrind": Runner("qvd", ("quiet", "verbose", *_VALGRIND.split())),
    "xargs": Runner(
        "0a:d:E:I:L:n:oprP:s:tx",
        ("null", "arg-file=", "delimiter=", "max-args=", "max-procs=", "no-run-if-empty", "verbose", "max-lines="),
    ),
    "xvfb-run": Runner("ae:f:ln:p:s:w:", ("auto-servernum", "error-file=", "server-num=", "server-args=", "wait=")),
}
_NAMES = [name.split() for name in RUNNERS]
_FIRST_WORDS = frozenset(name[0] for name in _NAMES)
SHELL = Runner("abefhilmnprtuvxBCDEHPTcsO:o:", ("login", "norc", "noprofile", "posix", "version", "help"))
SHELLS = frozenset({"ash", "bash", "dash", "ksh", "mksh", "sh", "zsh"})
SOURCES = frozenset({"source", "."})
FIND_RUNS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
# More commands in one `find` nobody writes; each of them reaches as far as the text, for all that is known.
MAX_FOUND = 16
# Words that make a text, a name or a later command mean something else than is written; and what is no command.
REFUSED = frozenset(
    {"alias", "coproc", "fc", "enable", "eval", "fish", "hash", "parallel", "runuser", "script", "su", "trap", "watch"}
    | {"if", "then", "else", "elif", "fi", "for", "while", "until", "do", "done", "case", "esac", "in", "function"}
    | {"select", "let", "bind", "complete", "compgen", "csh", "tcsh", "unshare", "nsenter", "ltrace", "runcon"}
    | {"bwrap", "firejail", "proot", "pkexec", "newgrp", "sg", "systemd-run", "start-stop-daemon", "entr", "ld.so"}
    | {"ld-linux.so.2", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "ld-musl-x86_64.so.1", "ld-musl-aarch64.so.1"}
)
# `set -k` takes arguments for assignments, `jobs -x` runs its own, `test -v` evaluates what stands in brackets.
REFUSED_OPTIONS = {
    "set": re.compile(r"[-+][a-zA-Z]*k|keyword"),
    "jobs": re.compile(r"-x"),
    "test": re.compile(r"-[vR]$"),
    "[": re.compile(r"-[vR]$"),
    "shopt": re.compile(r"expand_aliases|extglob|assoc_expand_once|extdebug"),
}

_ASSIGNMENT = re.compile(r"\w+\+?=")


def program(command: SimpleCommand) -> str:
    return posixpath.basename(command.name)


def inner_commands(command: SimpleCommand) -> Iterator[SimpleCommand]:
    """The commands that this one runs from its arguments, one layer of them; `Unparsable` when it is not plain which.

    A command that `xargs` or `find` completes may not be a runner itself: what is put in would be its command.
    """
    name = program(command)
    refused = REFUSED_OPTIONS.get(name)
    if name in REFUSED or (refused and any(refused.match(word.value or "") for word in command.words[1:])):
        raise Unparsable(f"what {name!r} runs cannot be told from its text")
    if name == "find":
        inner = list(_found(command))
    elif found := _runner(command):
        inner = list(_run_by(command, *found))
    else:
        return
    if name in ("find", "xargs") and any(_is_runner(each) for each in inner):
        raise Unparsable(f"what {name!r} makes of {inner[0].name!r} cannot be told from its text")
    yield from inner


def folder_option(command: SimpleCommand) -> Word | None:
    """The word that names another folder for what this command runs; one without a value when it is not plain which
    folder that is."""
    if program(command) == "find" and any(word.value in ("-execdir", "-okdir") for word in command.words):
        return Word("", None, 0)
    runner, own = _runner(command) or (Runner(), 1)
    if runner.moves:
        return Word("", None, 0)
    if not runner.folder:
        return None
    options, _ = _options(command, runner, own)
    found = [options[each] for each in runner.folder if each in options]
    # quoted or not is not known here
    plain = [Word(each, None if each.startswith("~") else each, 0) for each in found]
    return plain[0] if len(plain) == 1 else Word("", None, 0) if plain else None


def script(command: SimpleCommand) -> str | None:
    """The text in `sh -c TEXT`, None where there is none; `Unparsable` when a shell reads its text from elsewhere."""
    if program(command) in SOURCES:
        _check_file(command.words[1:])
    if program(command) not in SHELLS:
        return None
    options, rest = _options(command, SHELL)
    if {"--version", "--help"} & set(options):
        return None
    if "-c" not in options:
        if "-s" in options:
            raise Unparsable("the shell's text comes from its input")
        _check_file(rest)
        return None
    if not rest or rest[0].value is None or rest[0].value[:1] in ("-", "+"):
        raise Unparsable("the text for the shell is not plain")
    return rest[0].value


def _check_file(operands: tuple[Word, ...]) -> None:
    """A script by name is as good as a program; its own input, and devices that are it, are not."""
    name = operands[0].value if operands else None
    if name is None or name[:1] in ("-", "+") or is_input(name):
        raise Unparsable("the shell's text does not come from a file with a plain name")


def _is_runner(command: SimpleCommand) -> bool:
    return program(command) in _FIRST_WORDS | SHELLS | SOURCES | {"find"}


def _runner(command: SimpleCommand) -> tuple[Runner, int] | None:
    """With how many words name it; `Unparsable` where it is not plain whether this is one."""
    values = [program(command), *command.values[1:3]]
    for length in (3, 2, 1):
        if runner := RUNNERS.get(" ".join(map(str, values[:length]))):
            return runner, length
    if values[0] in _FIRST_WORDS and any(_may_be(name, values) for name in _NAMES):
        raise Unparsable(f"it is not plain what {command.name!r} runs")
    return None


def _may_be(name: list[str], values: list[str | None]) -> bool:
    for part, value in zip(name, values, strict=False):
        if value is None:
            return True
        if value not in (part, UNTOLD):
            return False
    return len(values) >= len(name)


def _run_by(command: SimpleCommand, runner: Runner, own: int) -> Iterator[SimpleCommand]:
    options, rest = _options(command, runner, own)
    if any(f"-{letter}" in options for letter in runner.asks):
        return
    first = len(command.words) - len(rest) + runner.operands
    if any(word.value is None for word in command.words[:first]):
        raise Unparsable(f"the arguments of {command.name!r} are not plain")
    if program(command) == "strace" and options.get("-o", "")[:1] in ("|", "!"):
        raise Unparsable("'strace' hands what it writes to another command")
    while first < len(command.words) and _ASSIGNMENT.match(command.words[first]):
        first += 1
    if first >= len(command.words):
        if runner.alone_a_shell:
            raise Unparsable("the shell's text comes from its input")
        return
    inner = command.part(first)
    replaced = options.get("-I")
    if replaced and any(replaced in word for word in inner.words[: operands_at(inner.values) + 1]):
        raise Unparsable(f"{command.name!r} puts together the name of what it runs")
    yield inner


def _options(command: SimpleCommand, runner: Runner, own: int = 1) -> tuple[dict[str, str], tuple[Word, ...]]:
    """The options before the first operand, and the words from there on. `own`: how many words name the runner."""
    plain = [word.value or "" for word in takewhile(lambda word: word.value is not None, command.words[own:])]
    attached = {f"--{name.removesuffix('=?')}" for name in runner.long if name.endswith("=?")}
    bare = [name if (name := each.partition("=")[0]) in attached else each for each in plain]
    try:
        options, rest = getopt(bare, runner.switches, [name.removesuffix("=?") for name in runner.long])
    except GetoptError as e:
        raise Unparsable(f"the options of {command.name!r} are not understood: {e}") from e
    return dict(options), command.words[own + len(plain) - len(rest) :]


def _found(command: SimpleCommand) -> Iterator[SimpleCommand]:
    values = [word.value for word in command.words]
    starts = [at for at, value in enumerate(values) if value in FIND_RUNS]
    if len(starts) > MAX_FOUND:
        raise Unparsable(f"one find runs more than {MAX_FOUND} commands")
    for at in starts:
        end = next((i for i in range(at + 1, len(values)) if values[i] in (";", "+")), len(values))
        if end > at + 1:
            yield command.part(at + 1, end)
