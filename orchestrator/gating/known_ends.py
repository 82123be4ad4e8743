"""Commands of a gate of which an exit code tells no more than that tests failed.

A test that is known to fail excuses that its runner ends as before. Where a command goes on after its runner (`pytest;
ruff check`, `make -k`), or runs who knows what, it ends so whatever else fails there. So each form that is known to
stop at the first failure is plain, and nothing else is.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .commands import WRAPPERS
from .makefiles import MAKEFILES, what_goals_reach
from .scripts import Invoked, invoked_by
from .settings_of import reached_entries
from .trees import Trees

MAX_CHARS = 200_000  # of one text
MAX_WRAPPERS = 100  # around one command, and variables set for it
MAX_DEPTH = 5  # of commands in the words of others
# Of which the exit code says whether tests failed; with a word that has to be there.
_BY_THEMSELVES = "pytest py.test unittest nose2 django-admin jest vitest mocha ava ctest rspec phpunit"
_BY_TEST = "cargo go dotnet bun deno swift manage.py setup.py django"
RUNNERS = {
    **dict.fromkeys(_BY_THEMSELVES.split(), ""),
    **dict.fromkeys(("mvn", "mvnw", "gradle", "gradlew"), ""),
    **dict.fromkeys(_BY_TEST.split(), "test"),
    "node": "--test",
}
# They go on after a failure.
_GOES_ON = re.compile(r"-fae|-fn|--fail-(?:at-end|never)|--continue|--keep-going|--ignore-errors|--no-bail|-ws?")
_MAKE_GOES_ON = re.compile(r"-[a-zA-Z]*[kij]\d*|--(?:keep-going|ignore-errors|jobs)\b.*|MAKEFLAGS=.*")
MAKE = frozenset(("make", "gmake"))
MANAGERS = frozenset(("npm", "pnpm", "yarn", "bun"))
SHELLS = frozenset(("sh", "bash", "dash", "zsh"))
INTERPRETERS = re.compile(r"(?:python|pypy)[\d.]*|node|ruby|perl|php|deno|bun|tsx|ts-node")
# They run what others have written down, in a way that is not followed here.
_FOLLOW_OTHERS = (
    "tox nox just task go-task rake invoke inv hatch pdm poe doit bazel nx turbo lerna moon concurrently npm-run-all"
    " run-p run-s parallel xargs eval watch pre-commit docker podman mise earthly ninja scons meson sudo ssh trap"
)
UNCLEAR = frozenset(_FOLLOW_OTHERS.split())
_WORDS_OF_SHELLS = "if then else elif fi for while until do done case esac { }"
_CONTROL = frozenset(_WORDS_OF_SHELLS.split())
_WRAP_TESTS = "xvfb-run nyc c8 cross-env dotenv stdbuf ionice bundle coverage builtin"
_WRAPS = WRAPPERS | frozenset(_WRAP_TESTS.split())
_WRAPPED_BY = {**dict.fromkeys(("uv", "poetry", "pdm", "pipenv", "rye", "pixi", "hatch"), "run"),
               **dict.fromkeys(("npm", "pnpm", "yarn", "bundle"), "exec")}  # fmt: skip
_VARIABLE = re.compile(r"\$(?:[({](\w{1,100})(?::?-([^)}\n]{0,200}))?[)}]|(\w{1,100}))")
_SETS_E = re.compile(r"\bset[ \t]+(?:-o[ \t]+errexit\b|-[a-df-z]*e)|\A#![^\n]*[ \t]-[a-df-z]*e")
_QUIET_ENDS = frozenset(("tee", "cat", "ts"))
WRITE_APART = "write each checker as a gate command of its own, or mend the tests that fail on the base"


async def unclear_ends(commands: Iterable[str], trees: Trees, folder: str) -> dict[str, str]:
    """Those of the commands whose ends tell too little, each with what in it is the reason."""
    paths = await trees.paths()
    found: dict[str, str] = {}
    for command in dict.fromkeys(commands):
        invoked = await invoked_by([command], folder=folder, among=paths, read=trees.before)
        files = {path: await trees.text(path) for path in sorted(invoked.scripts) if _is_read(path)}
        if reason := _Reading(invoked, files).reason_in(command):
            found[command] = reason
    return found


def _is_read(path: str) -> bool:
    return _is_makefile(path) or posixpath.basename(path) == "package.json" or _is_shell(path)


def _is_makefile(path: str) -> bool:
    return posixpath.basename(path) in MAKEFILES or path.endswith(".mk")


def _is_shell(path: str) -> bool:
    return posixpath.splitext(path)[1] in ("", ".sh", ".bash")


@dataclass(slots=True)
class _Reading:
    """Of one command, and all that it leads to: `files`, where they can be read."""

    invoked: Invoked
    files: Mapping[str, str | None]
    has_runner: bool = False
    _makes: bool = False
    _manages: bool = False
    _others: int = 0
    _scripts: set[str] = field(default_factory=set[str])

    def reason_in(self, command: str) -> str:
        """Empty where it is plain."""
        reason = self._in_shell(command)
        waiting = dict(self.files)
        while not reason:
            ready = [path for path in waiting if self._is_asked_for(path)]
            if not ready:
                break
            reason = next(filter(None, (self._in_file(path, waiting.pop(path)) for path in ready)), "")
        if not reason and (
            (self._makes and self.invoked.goals is None) or (self._manages and not self.invoked.entries)
        ):
            return "what it runs cannot be followed"
        # a single program that is not known is taken for the runner of the tests that were counted
        return reason or ("" if self.has_runner or self._others == 1 else "no runner of tests is seen in it")

    def _is_asked_for(self, path: str) -> bool:
        if _is_makefile(path):
            return self._makes
        return self._manages if path.endswith(".json") else path in self._scripts

    def _in_file(self, path: str, text: str | None) -> str:
        if text is None:
            return f"{path} cannot be read"
        if path.endswith(".json"):
            try:
                scripts = reached_entries(json.loads(text)["scripts"], self.invoked.entries)
            except (ValueError, TypeError, KeyError, RecursionError):
                return f"{path} cannot be read"
            return next(filter(None, (self._in_shell(str(one)) for one in scripts.values())), "")
        if not _is_makefile(path):
            return self._in_shell(text)
        if self.invoked.goals is not None and path in MAKEFILES:
            text = what_goals_reach(text, self.invoked.goals)
        if re.search(r"^[ \t]*\.(?:IGNORE|ONESHELL)\b|MAKEFLAGS", text, re.MULTILINE):
            return "the Makefile's own flags"
        variables = dict(re.findall(r"^(\w+)[ \t]*[:?]*=[ \t]*(\S.*)$", text, re.MULTILINE))
        recipes = (line[1:] for line in text.replace("\\\n", " ").split("\n") if line.startswith("\t"))
        return next(filter(None, (self._in_recipe(line, variables) for line in recipes)), "")

    def _in_recipe(self, line: str, variables: dict[str, str]) -> str:
        prefix = re.match(r"[ \t@+-]*", line)
        text = _VARIABLE.sub(lambda one: variables.get(one[1] or "", one[0]), line[prefix.end() if prefix else 0 :])
        had = self.has_runner
        self.has_runner = False
        reason = self._in_shell(text)
        ignores = self.has_runner and prefix is not None and "-" in prefix[0]
        self.has_runner |= had
        return reason or (line.strip() if ignores else "")

    def _in_shell(self, text: str, depth: int = 0) -> str:
        if len(text) > MAX_CHARS or depth > MAX_DEPTH:
            return "it is too long"
        try:
            statements = list(_statements(text))
        except ValueError:  # quotes that do not end
            return _short(text)
        stops = _SETS_E.search(text) is not None
        running = [self._may_run_tests(words, depth) for words, _ in statements]
        for number, ((words, _), kind) in enumerate(zip(statements, running, strict=True)):
            if kind is None:
                continue
            if kind:
                return kind
            end = number  # of what only shows what it is given, as `| tee log`
            while statements[end][1] == "|" and _is_quiet(statements[end + 1 : end + 2]):
                end += 1
            after = statements[end][1]
            if end + 1 < len(statements) and after != "&&" and not (after in (";", "\n") and stops):
                return _short(" ".join((*words, after, *statements[end + 1][0])))
        if any(kind is not None for kind in running) and any(words[0] in _CONTROL for words, _ in statements):
            return _short(text)
        return ""

    def _may_run_tests(self, words: Sequence[str], depth: int) -> str | None:
        """None of what runs none; else empty, or the reason why nobody knows what else it does."""
        program, given = _program(words)
        name = posixpath.basename(program)
        if name in RUNNERS and (not RUNNERS[name] or RUNNERS[name] in given[:2]):
            self.has_runner = True
            return _short(" ".join(words)) if any(_GOES_ON.fullmatch(word) for word in given) else ""
        if name in MAKE:
            self._makes = True
            return _short(" ".join(words)) if any(_MAKE_GOES_ON.fullmatch(word) for word in words) else ""
        if name in MANAGERS:
            if given[:1] and given[0] in ("ci", "install", "i", "add"):
                return None
            self.has_runner |= bool(given[:1]) and given[0] in RUNNERS
            self._manages = not (given[:1] and given[0] in RUNNERS) or self._manages
            return _short(" ".join(words)) if any(map(_is_of_many, given)) else ""
        if name == "tox":
            self.has_runner = True
            environments = self.invoked.environments
            return "" if environments is not None and len(environments) == 1 else _short(" ".join(words))
        options = next((word for word in given if re.fullmatch(r"-[a-z]*c", word)), "") if name in SHELLS else ""
        if options:
            text = "".join(given[given.index(options) + 1 :][:1])
            return self._in_shell(f"set -e\n{text}" if "e" in options else text, depth + 1)
        if name in SHELLS:
            program = next((word for word in given if not word.startswith("-")), "")
        elif INTERPRETERS.fullmatch(name):
            script = next((word for word in given if not word.startswith("-")), "")
            if posixpath.basename(script) in RUNNERS and "test" in given:  # `python manage.py test`
                self.has_runner = True
                return ""
            return _short(" ".join(words)) if script and "-c" not in given else None
        elif name in UNCLEAR:
            return _short(" ".join(words))
        elif "/" not in program or program.startswith("/"):
            if name in _HARMLESS or not {"install", "add", "sync"}.isdisjoint(given):
                return None
            self._others += 1
            others = {posixpath.basename(word) for word in given} & RUNNERS.keys()
            return _short(" ".join(words)) if any(not RUNNERS[one] for one in others) else None
        named = {path for path in self.files if posixpath.basename(path) == posixpath.basename(program)}
        if not named or not _is_shell(program):
            return _short(" ".join(words))
        self._scripts |= named
        return ""


_HARMLESS = frozenset(
    ("pip", "pip3", "apt-get", "echo", "which", "command", "printf", "mkdir", "rm", "cd", "export", "test")
)


def _is_quiet(statements: Sequence[tuple[list[str], str]]) -> bool:
    return any(posixpath.basename(words[0]) in _QUIET_ENDS for words, _ in statements)


def _is_of_many(word: str) -> bool:
    return (
        re.fullmatch(r"-r|-w|-ws|--recursive|--workspaces?(?:=.*)?|--filter(?:=.*)?|--parallel|--no-bail", word)
        is not None
    )


def _program(words: Sequence[str]) -> tuple[str, list[str]]:
    """Without what stands around it: `CI=1 uv run python -m pytest -q` is pytest."""
    rest = list(words)
    for _ in range(MAX_WRAPPERS):
        if not rest:
            break
        name = posixpath.basename(rest[0])
        if re.match(r"\w+\+?=", rest[0]) or rest[0] == "!":
            rest = rest[1:]
        elif rest[1:2] == [_WRAPPED_BY.get(name)]:
            rest = _without_options(rest[2:])
        elif name == "coverage" and rest[1:2] == ["run"]:
            rest = ["python", *rest[2:]]
        elif name in _WRAPS and name != "coverage":
            rest = _without_options(rest[1:])
        elif re.fullmatch(r"(?:python|pypy)[\d.]*", name) and "-m" in rest:
            at = rest.index("-m")
            if any(not word.startswith("-") for word in rest[1:at]):
                break
            rest = rest[at + 1 :]
        else:
            break
    return (rest[0], rest[1:]) if rest else ("", [])


def _without_options(words: list[str]) -> list[str]:
    at = 0
    while at < len(words) and re.fullmatch(r"-.*|\d+[smhd]?|\w+=.*", words[at]):
        at += 1
    return words[at:]


def _statements(text: str) -> Iterator[tuple[list[str], str]]:
    """The words of each simple command, and the sign after it."""
    text = _VARIABLE.sub(_named, text.replace("\\\n", " ").replace("$$", "$"))
    text = re.sub(r"(?m)^[ \t]*#.*$|\s#\s.*$", "", text)
    lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>\n")
    lexer.whitespace, lexer.commenters, lexer.whitespace_split = " \t\r", "", True
    words: list[str] = []
    skips = False
    for token in lexer:
        if token and set(token) <= set(";&|()<>\n"):
            if set(token) & set("<>"):  # `2>&1`, `> file`
                skips = not token.endswith("\n")
                continue
            sign = token.replace("(", "").replace(")", "")
            sign = (
                sign
                if sign in ("&&", "||", "|", "&")
                else sign.strip("\n")
                if sign.strip("\n") in ("&&", "||", "|")
                else sign[:1]
            )
            if words and sign:
                yield words, sign
                words = []
            skips = False
        elif skips:
            skips = False
        else:
            words.append(token)
    if words:
        yield words, ""


def _named(variable: re.Match[str]) -> str:
    """What a variable most often is: `$(PYTHON)`, `${PYTEST:-pytest}`."""
    if variable[2]:
        return variable[2]
    name = (variable[1] or variable[3]).lower()
    return name if name in RUNNERS or INTERPRETERS.fullmatch(name) or name in MAKE | MANAGERS else "VARIABLE"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return f"`{line}`" if len(line) <= 60 else f"`{line[:57]}…`"
