"""A gate's commands, taken apart: programs, the files that they run, and those that they only read. Pure."""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence

_WORD = re.compile(r"""(?:[^\s;|&(){}`'"]|'[^'\n]*'|"[^"\n]*")+""")
_BETWEEN = re.compile(r"[\n;|&(){}`]")
_ASSIGNMENT = re.compile(r"\w+=")
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*(?:\.exe)?")
# Programs that look at the files which they are given, and run none of them. What is not here may run what it names.
READERS = frozenset(
    (
        *("ruff", "black", "isort", "flake8", "pycodestyle", "pydocstyle", "pyflakes", "pylint", "mypy", "dmypy"),
        *("pyright", "basedpyright", "pytype", "bandit", "vulture", "codespell", "interrogate", "docformatter"),
        *("autopep8", "yapf", "pyupgrade", "autoflake", "doctest", "py_compile", "compileall", "tabnanny"),
        *("eslint", "prettier", "biome", "standard", "stylelint", "tslint", "oxlint", "jshint"),
        *("gofmt", "goimports", "golangci-lint", "staticcheck", "rustfmt", "clang-format", "clang-tidy", "cppcheck"),
        *("shellcheck", "shfmt", "hadolint", "yamllint", "markdownlint", "rubocop", "phpcs", "phpstan", "ktlint"),
    )
)
_MAY_READ = re.compile("|".join(map(re.escape, sorted((*READERS, "pytest", "py.test")))))
SOURCES = frozenset(
    (
        *(".py", ".pyi", ".pyx", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".css"),
        *(".go", ".rs", ".c", ".h", ".cc", ".cpp", ".hpp", ".java", ".kt", ".rb", ".php", ".sh", ".bash", ".md"),
    )
)
# Their next word is a file that the program obeys.
_OBEYED = re.compile(
    r"-[cprR]|--(?=[\w-]*(?:conf|rc|plugin|require|import|load|setup|ini|python|resolve|format|rules))[\w-]++"
)
# Programs whose arguments are a command of its own.
WRAPPERS = frozenset(("env", "time", "nice", "nohup", "command", "exec", "timeout", "uvx", "pipx", "npx", "bunx"))
RUN_OF = {
    **dict.fromkeys(("uv", "poetry", "pdm", "pipenv", "rye", "pixi", "hatch"), "run"),
    **dict.fromkeys(("npm", "pnpm", "yarn"), "exec"),
}
_SWITCH_OR_NUMBER = re.compile(r"-.*|\d+[smhd]?|\w+=.*")
MAX_ROOTS = 1000  # of one text: a project has a few
# Where a folder becomes one that Python loads modules from, in commands and in pytest's settings.
_ROOT = re.compile(
    r"(?:\bcd|--start-directory|--top-level-directory|\s-[st])[ =]+([\w./@%+][\w./@%+-]*)"
    r"|\bPYTHONPATH[\"']?[ \t]*[:?+]?[=:][ \t]*[\"']?([^\s\"']+)"
    r"|\bpython_?paths?[\"']?\s*[=:]\s*(\[[^\]]{0,2000}\]|[^\n]*(?:\n[ \t]+[^\n]*)*)"
)
# Possessive: such a text may be anything.
_ADDOPTS = re.compile(r"\baddopts\b[^\n]*+(?:\n[ \t\]]+[^\n]*+)*+")
_HERE = re.compile(r"(?:\$\{?\w+\}?|\$\(\w+\)|\{\w+\})/")  # a variable that most often is the folder itself
_MAKE = re.compile(r"(?<![\w./-])g?make(?![\w.-])")
_OTHER_MAKEFILES = re.compile(
    r"^[ \t]*(?:-?include|sinclude)[ \t]|\bMAKEFILES\b|[ \t](?:-[a-zA-Z]*f|--(?:make)?file)\b", re.MULTILINE
)
_GOAL = re.compile(r"[A-Za-z][\w-]*")
_NO_COMMAND = re.compile(r"(?:^|[ \t])#.*$|^\[.*\]$", re.MULTILINE)  # comments, and headings of settings
_MAKE_ITSELF = re.compile(r"\$[({]MAKE[)}]")
_PYTHON_OR_UNITTEST = re.compile(r"python|pypy|unittest")
_MANAGER = re.compile(r"(?<![\w./-])(?:npm|yarn|pnpm|bun)(?![\w.-])")
_TOX = re.compile(r"(?<![\w./-])tox(?![\w.-])")
# Programs that start a package's scripts in words of their own.
_MANY_SCRIPTS = re.compile(
    r"\b(?:run-[sp]|npm-run-all|concurrently|turbo|nx|lerna|wireit|lage|npx|bunx)\b|--run\b|\$npm_"
)
# Options of theirs after which another package's scripts are run; and those that have no next word.
_ELSEWHERE = re.compile(
    r"-w|--workspace|-r|--recursive|--filter|-F|--prefix|-C|--cwd|--dir|--include-workspace|--project"
)
_ALONE = re.compile(
    r"-[sqydi]|--(?:silent|quiet|verbose|yes|force|if-present|offline|prefer-offline|ignore-scripts|frozen-lockfile)"
    r"|--(?:no-[\w-]+|immutable|production|prod|bun|color|foreground-scripts|non-interactive|[\w-]+=.*)"
)
_SHORT_SCRIPTS: dict[str, str] = dict.fromkeys(("t", "tst", "it", "install-test", "cit", "install-ci-test"), "test")
_NAME = re.compile(r"[\w.:/-]+")
_SEVERAL = re.compile(r"[\s,:;\"'\[\]]+")


def _simple_commands(text: str) -> Iterator[list[re.Match[str]]]:
    """The words of each, with their places in the text. Quotes that hold several commands are taken apart."""
    at = 0
    for end in [*(match.start() for match in _BETWEEN.finditer(text)), len(text)]:
        if words := list(_WORD.finditer(text, at, end)):
            yield words
        at = end + 1


def _program_of(found: Iterable[re.Match[str]]) -> tuple[str, Sequence[str]]:
    """What is run in the end, and its arguments: `uv run python -m ruff check a.py` is ruff."""
    words = [_bare(word[0]) for word in found]
    modules = [at for at, word in enumerate(words) if word == "-m"]
    at = 0
    while at < len(words):
        name, after = posixpath.basename(words[at].lstrip("@+-")), words[at + 1 : at + 2]
        if _ASSIGNMENT.match(words[at]) or not name:
            at += 1
        elif name in WRAPPERS or after == [RUN_OF.get(name)]:
            at += 1 if name in WRAPPERS else 2
            while at < len(words) and _SWITCH_OR_NUMBER.fullmatch(words[at]):
                at += 1
        elif (_PYTHON.fullmatch(name) or (name == "coverage" and after == ["run"])) and at < (modules or [-1])[-1]:
            module = modules[bisect_right(modules, at)]
            if any(word.endswith(".py") for word in words[at:module]):  # it belongs to that program
                return name, words[at + 1 : module]
            at = module + 1
        else:
            return name, words[at + 1 :]
    return "", ()


def programs_run(texts: Iterable[str]) -> frozenset[str]:
    """By their names; more than they run of what is no text of a shell's.

    >>> sorted(programs_run(["uv run ruff check . && npx cspell"]))
    ['cspell', 'ruff']
    """
    commands = (words for text in texts for words in _simple_commands(_unfolded(text)))
    return frozenset(name for words in commands if (name := _program_of(words)[0]))


def without_files_read(text: str) -> str:
    """The text, but for source files that programs in it are given to look at.

    >>> without_files_read("ruff check a.py && python a.py").split()
    ['ruff', 'check', '&&', 'python', 'a.py']
    """
    lines = _unfolded(text).split("\n")
    return "\n".join(_without_files_read(line) if _MAY_READ.search(line) else line for line in lines)


def _without_files_read(line: str) -> str:
    read: list[re.Match[str]] = []
    for words in _simple_commands(line):
        program, given = _program_of(words)
        if program in READERS or (program in ("pytest", "py.test") and any("doctest" in word for word in given)):
            arguments = words[len(words) - len(given) :]
            befores = [None, *arguments]
            read += [word for word, before in zip(arguments, befores, strict=False) if _is_read(word, before)]
    ends = [0, *(word.end() for word in read)]
    kept = [f"{line[end : word.start()]}{' ' * len(word[0])}" for end, word in zip(ends, read, strict=False)]
    return "".join((*kept, line[ends[-1] :]))


def roots_in(texts: Iterable[str], folder: str) -> set[str]:
    """Folders that commands, scripts and settings put on Python's path, as far as they say so; no more than some."""
    found: set[str] = set()
    for text in texts:
        if len(found) > MAX_ROOTS:
            break
        for match in _ROOT.finditer(text):
            named = next(filter(None, match.groups()), "")
            places = [_HERE.sub("", one) if _HERE.match(one) else one for one in _SEVERAL.split(named, MAX_ROOTS)]
            found |= {posixpath.normpath(posixpath.join(folder, one)) for one in places[:MAX_ROOTS] if one}
            if len(found) > MAX_ROOTS:
                break
        for words in _simple_commands(_only_with(_PYTHON_OR_UNITTEST, without_files_read(text))):
            program, given = _program_of(words)
            named = [word for word in given if not word.startswith("-")][:MAX_ROOTS]
            if _PYTHON.fullmatch(program):
                named = [posixpath.dirname(word) for word in named if word.endswith(".py")]
            elif program != "unittest" or "discover" not in given:
                continue
            found |= {posixpath.normpath(posixpath.join(folder, word)) for word in named}
            if len(found) > MAX_ROOTS:
                break
    return {"" if root == "." else root for root in found}


def addopts_in(settings: str) -> list[str]:
    """Options that pytest's settings add to its command."""
    return _ADDOPTS.findall(settings)


def makes_in(texts: Iterable[str]) -> frozenset[str] | None:
    """The goals that `make` is asked for (an empty one: by no name); None where they cannot be told. Where one makefile
    is read with others, whatever these texts say may be needed of it."""
    texts = list(texts)
    goals = _asked(texts, _MAKE, _goals)
    if goals and any(_OTHER_MAKEFILES.search(text) for text in texts):
        goals |= {word for text in texts for word in _GOAL.findall(text)}
    return goals


def scripts_in(texts: Iterable[str]) -> frozenset[str] | None:
    """The scripts of a package.json that its managers are asked for."""
    texts = list(texts)
    if any(_MANY_SCRIPTS.search(text) for text in texts):
        return None
    return _asked(texts, _MANAGER, _scripts)


def environments_in(texts: Iterable[str]) -> frozenset[str] | None:
    """The environments that tox is asked for; None also for all of them."""
    return _asked(texts, _TOX, _environments)


def _asked(
    texts: Iterable[str], program: re.Pattern[str], names: Callable[[Sequence[str]], Iterable[str] | None]
) -> frozenset[str] | None:
    """Each mention of the program has to be a command that is understood."""
    found: set[str] = set()
    for text in texts:
        text = _NO_COMMAND.sub("", _MAKE_ITSELF.sub("make", _unfolded(text)))
        mentions = len(program.findall(text))
        for words in _simple_commands(_only_with(program, text)):
            name, given = _program_of([word for word in words if not re.search("[<>]", word[0])])
            if program.fullmatch(name):
                asked = names((name, *given))
                if asked is None or any(not _NAME.fullmatch(one) for one in asked if one):
                    return None
                found |= set(asked)
                mentions -= 1
        if mentions > 0:
            return None
    return frozenset(found)


def _only_with(pattern: re.Pattern[str], text: str) -> str:
    """A repository's texts may be long; most of their lines say nothing of the kind."""
    return "\n".join(line for line in text.split("\n") if pattern.search(line))


def _goals(words: Sequence[str]) -> list[str] | None:
    goals: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if word in ("-C", "-f", "-I", "-o", "-W", "-j", "-l"):
            value = next(rest, "")
            goals += [value] if word in ("-j", "-l") and not value.isdigit() and value else []
        elif word.startswith(("--eval", "-E")):
            return None
        elif not word.startswith("-") and "=" not in word:
            goals.append(word)
    values = [word.partition("=")[2] for word in words if "=" in word]  # of variables, which may be needed
    return [*(goals or [""]), *(name for value in values for name in _GOAL.findall(value))]


def _scripts(words: Sequence[str]) -> list[str] | None:
    manager, *rest = words
    plain: list[str] = []
    before = ""
    for word in rest:
        if _ELSEWHERE.match(word) or (word in ("workspace", "workspaces") and not plain):
            return None
        if not word.startswith("-"):
            if not plain and before.startswith("-") and not _ALONE.fullmatch(before):
                return None  # which may be that option's, or a script
            plain.append(word)
        before = word
    if not plain or plain[0] in ("ci", "install", "i", "add", "exec", "dlx", "x", "audit", "config", "cache"):
        return []
    if plain[0] in ("run", "run-script"):
        return plain[1:2]
    found = [_SHORT_SCRIPTS.get(plain[0], plain[0])]
    return found if manager != "npm" or found[0] in ("test", "start") else None


def _environments(words: Sequence[str]) -> list[str] | None:
    found: list[str] = []
    rest = iter(words[1:])
    for word in rest:
        if word == "--":
            break
        if word in ("-e", "--env"):
            found += next(rest, "").split(",")
        elif word.startswith("-e") and len(word) > 2:
            found += word[2:].lstrip("=").split(",")
    return found if found and "ALL" not in found else None


def _is_read(word: re.Match[str], before: re.Match[str] | None) -> bool:
    text = _bare(word[0])
    return posixpath.splitext(text)[1] in SOURCES and not (before and _OBEYED.fullmatch(_bare(before[0])))


def _unfolded(text: str) -> str:
    """Lines that go on are one, of the same length."""
    return text.replace("\\\n", "  ")


def _bare(word: str) -> str:
    return word.replace("'", "").replace('"', "")
