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

from .arguments import operands_at
from .syntax import Unparsable
from .words import SimpleCommand, Word


@dataclass(frozen=True, slots=True)
class Runner:
    """`switches` and `long` as `getopt` takes them; with one of `asks` it only tells something.

    `operands`: how many words of its own stand before the command. `folder`: the options that name the folder which it
    runs the command in.
    """

    switches: str = ""
    long: tuple[str, ...] = ()
    asks: str = ""
    operands: int = 0
    folder: tuple[str, ...] = ()


RUNNERS: dict[str, Runner] = {
    "builtin": Runner(),
    "busybox": Runner(),
    "chronic": Runner(),
    "command": Runner("pvV", asks="vV"),
    "chroot": Runner(operands=1),
    "doas": Runner("nu:C:"),
    "env": Runner("i0u:C:v", ("ignore-environment", "null", "unset=", "chdir=", "debug"), folder=("-C", "--chdir")),
    "exec": Runner("cla:"),
    "flock": Runner("sxunw:", ("shared", "exclusive", "nonblock", "wait=", "timeout="), operands=1),
    "gosu": Runner(operands=1),
    "ionice": Runner("c:n:t", ("class=", "classdata=", "ignore")),
    "nice": Runner("n:", ("adjustment=",)),
    "nohup": Runner(),
    "setsid": Runner("cfw", ("ctty", "fork", "wait")),
    "stdbuf": Runner("i:o:e:", ("input=", "output=", "error=")),
    "strace": Runner("cCdfFhiqrtTvVxyYe:o:p:s:u:E:P:S:I:a:b:O:X:"),
    "sudo": Runner(
        "AbEHknPSu:g:p:C:h:T:R:D:",
        ("preserve-env", "user=", "group=", "set-home", "non-interactive"),
        folder=("-D",),
    ),
    "taskset": Runner("a", ("all-tasks",), operands=1),
    "time": Runner("pvaf:o:", ("portability", "verbose", "append", "format=", "output=")),
    "timeout": Runner("k:s:v", ("kill-after=", "signal=", "preserve-status", "foreground", "verbose"), operands=1),
    "xargs": Runner(
        "0a:d:E:I:L:n:oprP:s:tx",
        ("null", "arg-file=", "delimiter=", "max-args=", "max-procs=", "no-run-if-empty", "verbose", "max-lines="),
    ),
}
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
    | {"select", "let", "bind", "complete", "compgen", "csh", "tcsh", "unshare", "nsenter", "ltrace"}
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
    elif runner := RUNNERS.get(name):
        inner = list(_run_by(command, runner))
    else:
        return
    if name in ("find", "xargs") and any(_is_runner(each) for each in inner):
        raise Unparsable(f"what {name!r} makes of {inner[0].name!r} cannot be told from its text")
    yield from inner


def folder_option(command: SimpleCommand) -> Word | None:
    """The word that names another folder for what this command runs; one without a value when it is not plain which
    folder that is."""
    name, runner = program(command), RUNNERS.get(program(command))
    if name == "chroot" or (name == "find" and any(word.value in ("-execdir", "-okdir") for word in command.words)):
        return Word("", None, 0)
    if runner is None or not runner.folder:
        return None
    options, _ = _options(command, runner)
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
    if name is None or name[:1] in ("-", "+") or re.match(r"/+(?:dev|proc)\b", posixpath.normpath(name)):
        raise Unparsable("the shell's text does not come from a file with a plain name")


def _is_runner(command: SimpleCommand) -> bool:
    return program(command) in RUNNERS or program(command) in SHELLS | SOURCES | {"find"}


def _run_by(command: SimpleCommand, runner: Runner) -> Iterator[SimpleCommand]:
    options, rest = _options(command, runner)
    if any(f"-{letter}" in options for letter in runner.asks):
        return
    first = len(command.words) - len(rest) + runner.operands
    if any(word.value is None for word in command.words[:first]):
        raise Unparsable(f"the arguments of {command.name!r} are not plain")
    while first < len(command.words) and _ASSIGNMENT.match(command.words[first]):
        first += 1
    if first >= len(command.words):
        return
    inner = command.part(first)
    replaced = options.get("-I")
    if replaced and any(replaced in word for word in inner.words[: operands_at(inner.values) + 1]):
        raise Unparsable(f"{command.name!r} puts together the name of what it runs")
    yield inner


def _options(command: SimpleCommand, runner: Runner) -> tuple[dict[str, str], tuple[Word, ...]]:
    """The options before the first operand, and the words from there on."""
    plain = [word.value or "" for word in takewhile(lambda word: word.value is not None, command.words[1:])]
    try:
        options, rest = getopt(plain, runner.switches, runner.long)
    except GetoptError as e:
        raise Unparsable(f"the options of {command.name!r} are not understood: {e}") from e
    return dict(options), command.words[1 + len(plain) - len(rest) :]


def _found(command: SimpleCommand) -> Iterator[SimpleCommand]:
    values = [word.value for word in command.words]
    starts = [at for at, value in enumerate(values) if value in FIND_RUNS]
    if len(starts) > MAX_FOUND:
        raise Unparsable(f"one find runs more than {MAX_FOUND} commands")
    for at in starts:
        end = next((i for i in range(at + 1, len(values)) if values[i] in (";", "+")), len(values))
        if end > at + 1:
            yield command.part(at + 1, end)
