"""What a text leads its reader to: files that it runs, sources or obeys, and folders that it goes to. Pure.

Words are what a POSIX shell makes of them, without quotes; a quote that nobody closes is no quote. What stands inside
quotes may be a command again. Texts of other languages are read as words, too: `run("python", "a.py")`.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, pairwise

from .commands import READERS, RUN_OF, WRAPPERS

PROSE = (".md", ".rst", ".txt", ".lock", ".html", ".css", ".csv", ".xml", ".svg")  # which no shell reads
MAX_FOLDERS = 20  # of one text; more are as good as unknown
MAX_VALUE_CHARS = 80  # of a variable that is put in
MAX_DEPTH = 3  # of commands in quotes of commands
_TOKEN = re.compile(
    r"""(?P<word>(?:[^\s;|&()<>`'"\\\#]|\\.|'[^'\n]*+'|"(?:[^"\\\n]|\\.)*+")
                 (?:[^\s;|&()<>`'"\\]|\\.|'[^'\n]*+'|"(?:[^"\\\n]|\\.)*+")*+)
      | \#[^\n]*+ | (?P<end>[\n;|&()`]) | (?P<out>>)""",
    re.VERBOSE,
)
_PIECE = re.compile(r"""'([^'\n]*+)'|"((?:[^"\\\n]|\\.)*+)"|\\(.)|([^'"\\]++|.)""")
_ESCAPED = re.compile(r"\\(.)")
# Where a script says its own folder, and variables in the forms of make, shells, tox and just.
_OWN_FOLDER = re.compile(
    r"\$\(\s*dirname\s[^()\n]{0,200}\)|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}|\$\(git rev-parse --show-toplevel\)"
)
_OWN_FOLDER_AGAIN = re.compile(r"""\$\(\s*cd\s{1,9}["']?([\w./-]{1,200})["']?\s{1,9}&&\s{1,9}pwd[\s\w-]{0,9}\)""")
_VARIABLE = re.compile(r"\$\((\w+)\)|\$\{(\w+)\}|\{\{?[ .]?(\w+)[ ]?\}\}?")
_SET = re.compile(r"(?<![\w$.-])(\w++)[ \t]*+(?:[:?+!]|::)?=[ \t]*+([^\s;|&()`]*+)")
_ANSWER = re.compile(r"\$\(([^()\n]*+)\)|`([^`\n]*+)`")  # of a command
_HERE: dict[str, str] = dict.fromkeys(("PWD", "pwd", "CURDIR", "toxinidir", "GITHUB_WORKSPACE"), ".")
_USED = re.compile(r"\$(\w+)")
_UNTOLD = re.compile(r".*(?:\$\w+|\$[@*\#?0-9!<^+%|-]|\$$|[)}`])", re.DOTALL)
_MORE = re.compile(r"([,(\[])[ \t]*\n\s*")
_FLAT = str.maketrans("()[],=", "      ")
_KEYWORDS = frozenset(
    ("if", "then", "do", "else", "elif", "while", "until", "!", "{", "}", "-", "run:", "time", "sudo")
)
_LISTERS = frozenset(("find", "fd", "ls", "echo", "printf", "cat", "git"))  # of files that another command runs
_CHANGES = frozenset(("cd", "pushd", "chdir"))
_FOLDER_KEYS = frozenset(("cwd", "dir", "chdir", "changedir", "change_dir", "working-directory", "working_directory"))
_FOLDER = re.compile(
    r"-C|--(?:directory|cwd|dir|chdir|prefix|working-dir(?:ectory)?|work-?dir|project(?:-dir(?:ectory)?)?|root(?:-?dir)?)"
)
# Programs that run a file which they are given: by the first pattern that fits, the options with which they run none,
# and those that have a next word of their own.
_INTERPRETERS = tuple(
    (re.compile(names), re.compile(no_file), re.compile(with_value))
    for names, no_file, with_value in (
        (
            r"py(?:thon|py)?[\d.]*w?|envpython|executable|ipython",
            r"-(?=[A-Za-z]*c).*+",
            r"-[WX]|--check-hash-based-pycs",
        ),
        (r"(?:ba|z|da|k|c|fi)?sh|shell", r"-[A-Za-z]*[cn]", r"[-+][A-Za-z]*[oO]|--rcfile|--init-file"),
        (
            r"node(?:js)?|execpath|ts-node|tsx|bun|deno",
            r"-[cep]|-pe|--check|--eval|--print",
            r"-[rC]|--require|--import|--loader|--experimental-loader|--preload|--env-file|--project|--config",
        ),
        (r"php[\d.]*", r"-[rli]", r"-[cd]"),
        (r"perl|ruby|lua[\d.]*|luajit", r"-c|-[a-z]*e", r"-[Ir]"),
        (r"coverage|go|uv|poetry|pdm|pipenv|rye|pixi|streamlit", r"-m", r"-C|--with|--python|-p"),
        (
            r"rscript|julia|groovy|pwsh|powershell|tclsh|elixir|java|torchrun|accelerate",
            r"-[ec]|--eval",
            r"-cp|-classpath",
        ),
    )
)
_ANY_INTERPRETER = re.compile("|".join(f"(?:{names.pattern})" for names, _, _ in _INTERPRETERS))
_RUN_FIRST = re.compile(_INTERPRETERS[5][0].pattern)
_PYTHON = re.compile(_INTERPRETERS[0][0].pattern + "|coverage")
_MODULE = re.compile(r"-[bBdEhiIOqsSuvVxP]*m(.*)", re.DOTALL)
# Their next word is a file that the program obeys.
_OBEYED = re.compile(
    r"-[cfr]|--(?:file|makefile|justfile|taskfile|rcfile|init-file|rakefile|noxfile|search-root|collection)"
    r"|--(?=[\w-]*(?:conf|rc|plugin|require|import|load|setup|ini|rules))[\w-]++"
)
# Programs to which files are data: what they do does not depend on what a file says.
_TAKE_DATA = (
    "cp mv rm ln cat ls wc head tail sort uniq cut tr tee touch mkdir rmdir chmod chown install find xargs grep egrep"
    " fgrep rg sed awk gawk diff cmp patch tar zip unzip gzip test [ [[ echo printf which type export set unset local"
    " readonly declare for case in read return exit stat git curl wget rsync scp ssh pip pip3 pipx conda mamba apt"
    " apt-get brew basename dirname realpath readlink file du md5sum sha256sum less more open cc gcc cxx c++ g++ clang"
    " clang++ cpp ld ar fc gfortran nm strip rustc cargo javac kotlinc scalac swiftc tsc esbuild swc babel webpack"
    " rollup terser uglifyjs cython cythonize mypyc nuitka pyinstaller f2py swig protoc twine pandoc sphinx-build"
    " sphinx-apidoc mkdocs pdoc pdoc3 doxygen jupyter pytest py.test unittest nose2 nosetests jest vitest mocha ava"
    " tap jasmine rspec phpunit bats ctest tox nox npm yarn pnpm npx stubtest pyre ty 2to3 refurb radon xenon pydoc"
    " djlint sqlfluff typos lizard semgrep cloc source . sources files file path paths exclude include from import"
    " assert"
)
_TO_THESE_DATA = frozenset(_TAKE_DATA.split())
_MANAGERS = frozenset(("npm", "yarn", "pnpm", "bun"))
_PLACED = re.compile(r"-w|--workspaces?|-r|--recursive|--filter(?:-prod)?|-F|workspaces?")
# Programs that look in a folder for what they have to do.
_LED_BY_FOLDERS = frozenset(("env", "make", "gmake", "just", "task", "rake", "invoke", "inv", "nox", "tox", "doit"))
_FOLDER_IN_SHORT = ("task", "composer", "just", "gradle")
_OBEY = ("pytest", "py.test", "npx", "mocha", "jest", "vitest", "ava", "tap", "rspec", "tox", "nox", "bats", "phpunit")
_INSTALLERS = frozenset(("pip", "pip3", "pip-compile", "pip-sync", "piptools", "conda", "mamba", "uv-pip"))
_ASSIGNMENT = re.compile(r"(\w+)=")
_ASSIGNED = frozenset(("=", ":=", "::=", ":::=", "?=", "+=", "!="))
_OBEYED_VARIABLES = frozenset(("BASH_ENV", "ENV", "MAKEFILES", "PYTHONSTARTUP", "SHELL", "NODE_OPTIONS"))
_OF_WRAPPER = re.compile(r"-.*|\d+[smhd]?|\w+=.*", re.DOTALL)


@dataclass(slots=True)
class Led:
    """`run`: words that may be files which are run, sourced or obeyed. `given`: what stands first among the words of
    a program that is not known. `main`: programs, and `programs`: all words that might be some. `is_elsewhere`: it
    goes to a folder that cannot be told. `is_open`: it runs a file that cannot be told; maybe one that is
    `looped` over."""

    run: set[str] = field(default_factory=set[str])
    given: set[str] = field(default_factory=set[str])
    looped: set[str] = field(default_factory=set[str])
    modules: set[str] = field(default_factory=set[str])
    folders: dict[str, None] = field(default_factory=dict[str, None])
    programs: set[str] = field(default_factory=set[str])
    main: set[str] = field(default_factory=set[str])
    is_elsewhere: bool = False
    is_open: bool = False


def led_by(text: str, *, is_shell: bool = True) -> Led:
    """
    >>> led = led_by("D=sub; cd \\"$D\\" && make -fci.mk && $(PYTHON) -W error check.py")
    >>> list(led.folders), sorted(led.run)
    (['sub'], ['check.py', 'ci.mk'])
    """
    led = Led()
    text = text.replace("\\\n", "  ")
    text = _OWN_FOLDER_AGAIN.sub(r"\1", _OWN_FOLDER.sub(".", text)) if "$" in text else text
    text = _VARIABLE.sub(lambda found: f"${found[1] or found[2] or found[3]}", text)
    values = _HERE | _values(text) if "$" in text else _HERE
    text, *inner = _without_answers(text) if "$(" in text or "`" in text else [text]
    if not is_shell:
        text = _MORE.sub(r"\1 ", text).translate(_FLAT)
    for words in chain.from_iterable(_commands(one, MAX_DEPTH) for one in (text, *inner)):
        words = [_put_in(word, values) if "$" in word else word for word in words]
        _Command(led, words, is_shell).follow()
    return led


def _without_answers(text: str) -> list[str]:
    """With a variable in the place of what commands answer; and these commands."""
    inner: list[str] = []

    def taken(found: re.Match[str]) -> str:
        inner.append(found[1] or found[2] or "")
        return "$_0"

    for _ in range(MAX_DEPTH):
        text = _ANSWER.sub(taken, text)
    return [text, *inner]


def untold(word: str) -> tuple[bool, str]:
    """Does a variable, or a command's answer, say where it begins; and what is plain after that, without its slash."""
    found = _UNTOLD.match(word)
    if found is None:
        return False, word
    rest = word[found.end() :]
    return True, rest.lstrip("/") if rest.startswith("/") else ""


def _values(text: str) -> dict[str, str]:
    """Variables that the text itself gives one plain value."""
    found: dict[str, str | None] = {}
    for name, value in _SET.findall(text):
        bare = _bare(value)
        is_plain = bool(bare) and "$" not in bare and len(bare) <= MAX_VALUE_CHARS
        found[name] = bare if is_plain and found.get(name, bare) == bare else None
    return {name: value for name, value in found.items() if value is not None}


def _put_in(word: str, values: dict[str, str]) -> str:
    return _USED.sub(lambda found: values.get(found[1], found[0]), word)


def _commands(text: str, depth: int) -> Iterator[list[str]]:
    """The words of each simple command, and of those in quotes."""
    words: list[str] = []
    skip = False
    inner: list[str] = []
    for token in _TOKEN.finditer(text):
        if raw := token["word"]:
            word = _bare(raw) if "'" in raw or '"' in raw or "\\" in raw else raw
            if not skip:
                words.append(word)
            skip = False
            if word is not raw and depth and re.search(r"[\s;|&]", word):
                inner.append(word)
        elif token["out"]:
            skip = True
        elif token["end"]:
            if words:
                yield words
            words, skip = [], False
    if words:
        yield words
    for one in inner:
        yield from _commands(one, depth - 1)


def _bare(word: str) -> str:
    def piece(found: re.Match[str]) -> str:
        if found[1] is not None:
            return found[1]
        return _ESCAPED.sub(r"\1", found[2]) if found[2] is not None else found[3] or found[4] or ""

    return _PIECE.sub(piece, word)


def _name_of(word: str) -> str:
    """The program that a word may be: `$PYTHON`, `.venv/bin/python3`, `sys.executable`."""
    name = posixpath.basename(word.lstrip("@+-"))
    if name.startswith("$"):
        name = name[1:].lower()
    return name.removesuffix(".exe").removeprefix("sys.").removeprefix("process.").lower()


class _Command:
    """One of a text, with what it leads to put into `led`."""

    __slots__ = ("_is_shell", "_led", "_names", "_words")

    def __init__(self, led: Led, words: list[str], is_shell: bool) -> None:
        if is_shell and words[0].startswith(("@", "+", "-")):  # of a recipe
            words = [words[0].lstrip("@+-"), *words[1:]]
        self._led, self._words, self._is_shell = led, words, is_shell
        self._names = [_name_of(word) for word in words]

    def follow(self) -> None:
        led, words = self._led, self._words
        led.programs.update(self._names)
        at = self._start()
        name = self._names[at] if at < len(words) else ""
        self._variables()
        self._options(name)
        self._interpreters()
        if name:
            self._main(at, name)
        if not self._is_shell:
            for key, value in pairwise(words):
                if key.rstrip(":") in _FOLDER_KEYS:
                    self._go(value)

    def _main(self, at: int, name: str) -> None:
        led, word, rest = self._led, self._words[at], self._words[at + 1 :]
        led.main.add(name)
        if word in (".", "source"):
            led.run.update(rest[:1])
        elif word == "for":
            led.looped.update(rest[2:])
        elif word in _LISTERS and self._is_shell:
            led.looped.update(rest)
        elif name == "cargo" and "run" in rest:
            led.run.update(f"$_/{one}" for told in rest for one in (f"{told}/src/main.rs", f"src/bin/{told}.rs"))
        elif name in _CHANGES or name.endswith((".cd", ".chdir")):
            self._go(next((word for word in rest if word != "--" and not word.startswith("-")), "."))
        is_label = any(one.endswith(":") for one in (word, *rest[:3]))
        is_path = "/" in word and not is_label and not word.endswith(PROSE)
        if (self._is_shell and is_path) or word.startswith(("./", "../")):
            led.run.add(word.lstrip("@+-"))
        is_known = name in _TO_THESE_DATA or name in READERS or _ANY_INTERPRETER.fullmatch(name)
        if self._is_shell and not is_known and not is_label:
            led.given.update(_first(rest))

    def _start(self) -> int:
        """Behind keywords, variables and programs whose arguments are a command."""
        words, names, at = self._words, self._names, 0
        while at < len(words):
            if words[at] in _KEYWORDS or not names[at] or _ASSIGNMENT.match(words[at]):
                at += 1
            elif words[at + 1 : at + 2] and words[at + 1] in _ASSIGNED:  # of make: a list of files, or a command
                at += 2
                if at < len(words) and not words[at].isidentifier() and not re.fullmatch(r"[a-z-]+", words[at]):
                    return len(words)
            elif names[at] in WRAPPERS or words[at + 1 : at + 2] == [RUN_OF.get(names[at])]:
                at += 1 if names[at] in WRAPPERS else 2
                while at < len(words) and _OF_WRAPPER.fullmatch(words[at]):
                    at += 1
            else:
                break
        return at

    def _variables(self) -> None:
        """Those that name a file for a program to obey, wherever they are set."""
        for at, word in enumerate(self._words):
            if (found := _ASSIGNMENT.match(word)) and found[1] in _OBEYED_VARIABLES:
                self._led.run.add(word[found.end() :])
            elif word in _OBEYED_VARIABLES and self._words[at + 1 : at + 2] and self._words[at + 1] in _ASSIGNED:
                self._led.run.update(self._words[at + 2 : at + 3])

    def _go(self, folder: str) -> None:
        is_untold, rest = untold(folder)
        if is_untold or len(self._led.folders) >= MAX_FOLDERS:
            self._led.is_elsewhere = True
        elif rest:
            self._led.folders[rest] = None

    def _options(self, name: str) -> None:
        led, words, found = self._led, self._words, frozenset(self._names)
        is_manager, is_led_there = not found.isdisjoint(_MANAGERS), not found.isdisjoint(_LED_BY_FOLDERS)
        is_obeyed = name not in _TO_THESE_DATA or name in _OBEY or "make" in found
        is_obeyed = is_obeyed and found.isdisjoint(_INSTALLERS)  # `-r requirements.txt`
        for at, word in enumerate(words):
            if "=-" in word and (assigned := _ASSIGNMENT.match(word)):
                word = word[assigned.end() :]  # `NODE_OPTIONS=--require=./setup`
            if is_manager and _PLACED.fullmatch(word.partition("=")[0]):
                led.is_elsewhere = True
            if not word.startswith("-") or len(word) < 2:
                continue
            if word.startswith("--"):
                option, glue, value = word.partition("=")
            else:
                option, value = word[:2], word[2:].removeprefix("=")
                glue = value
            value = value if glue else "".join(words[at + 1 : at + 2])
            if _FOLDER.fullmatch(option) or (option in ("-d", "-p") and name in _FOLDER_IN_SHORT):
                if is_manager or is_led_there or not untold(value)[0]:
                    self._go(value)
            elif is_obeyed and _OBEYED.fullmatch(option):
                led.run.add(value)

    def _interpreters(self) -> None:
        words, led = self._words, self._led
        last = -1  # each word is looked at once, whatever stands before it
        for at, name in enumerate(self._names):
            if at < last or not _ANY_INTERPRETER.fullmatch(name):
                continue
            _, no_file, with_value = next(one for one in _INTERPRETERS if one[0].fullmatch(name))
            is_run, is_python = not _RUN_FIRST.fullmatch(name), _PYTHON.fullmatch(name)
            last = at + 1
            while last < len(words):
                word = words[last]
                if is_python and (module := _MODULE.fullmatch(word)):
                    led.modules.add(module[1] or "".join(words[last + 1 : last + 2]))
                    break
                if word.startswith(("-", "+")) and len(word) > 1:
                    if no_file.fullmatch(word):
                        break
                    last += 2 if with_value.fullmatch(word) else 1
                elif word in ("run", "exec", "test"):
                    is_run, last = True, last + 1
                else:
                    is_after_option = last > at + 1 and words[last - 1].startswith("--") and "=" not in words[last - 1]
                    if is_run:
                        led.run.update((word, f"{word}/*.go") if words[at : at + 2] == ["go", "run"] else (word,))
                        is_untold, rest = untold(word)
                        led.is_open |= is_untold and not rest
                    if not is_after_option:  # else it may be that option's
                        break
                    last += 1
            else:
                led.is_open |= "xargs" in self._names[:at]


def _first(words: Sequence[str]) -> Iterator[str]:
    """The first that is no option; one that may belong to an option does not end the search."""
    before = ""
    for word in words:
        if not word.startswith(("-", "+")):
            yield word
            if not before.startswith("--") or "=" in before:
                return
        before = word
