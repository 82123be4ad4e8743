"""What setup commands may take of the project, told from their words and the base's files. The rule is closed: of a
command that is not known here nobody can say that it installs what others have made and nothing else.
"""

from __future__ import annotations

import ast
import json
import posixpath
import re
import shlex
import tomllib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigError
from dataclasses import dataclass
from typing import Any, cast

Read = Callable[[str], Awaitable[str | None]]  # a file of the base; None where it has none at this path


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


MAX_REQUIREMENT_FILES = 50
MAX_COMMAND_CHARS = 10_000
# Of what is parsed: a hundred times a long one. Keys of many parts take `tomllib` quadratic time.
MAX_SETTINGS_CHARS, MAX_LINE_CHARS = 64 * 1024, 1000
AND = "&&"
_IS = r"(===|==|~=|!=|<=|>=|<|>)[\w.*+!-]+"
_REQUIREMENT = re.compile(rf"[A-Za-z0-9][\w.-]*(\[[\w.,-]*\])?({_IS}(,{_IS})*)?", re.ASCII)
_ARCHIVES = (".whl", ".zip", ".egg", ".tar", ".tgz", ".tbz", ".txz", ".gz", ".bz2", ".xz", ".lzma")
_AWAY = ("https://", "git+https://", "git+ssh://", "hg+https://", "svn+https://", "bzr+https://")
_ITSELF = re.compile(r"\./?(\[[\w.,-]*\])?", re.ASCII)
_HASH = re.compile(r"\s--hash=\w+:[0-9a-f]+")
_COMMENT = re.compile(r"(^|\s)#.*")
_FURTHER = re.compile(r"(?:-r|-c|--requirement|--constraint)[ =]([^\s$]+)")
_INDEXES = _words("-i --index-url --extra-index-url")
_PIP_SWITCHES = _words("""
    -q -qq -v -U --quiet --verbose --upgrade --no-cache-dir --disable-pip-version-check --no-deps --pre --no-input
    --prefer-binary --no-build-isolation --require-hashes --user --system --root-user-action=ignore
    --no-warn-script-location
""")
# Back ends that lay out a project in place by its tables, and what of these would build or copy something.
_BACKENDS = {
    **dict.fromkeys(("", "setuptools.build_meta", "setuptools.build_meta:__legacy__"), "setuptools"),
    "hatchling.build": "hatch",
    "flit_core.buildapi": "flit",
    "poetry.core.masonry.api": "poetry",
    "pdm.backend": "pdm",
}
_BUILT_WITH = _words("""
    setuptools wheel hatchling flit-core poetry-core pdm-backend setuptools-scm hatch-vcs hatch-fancy-pypi-readme
    flit-scm pbr versioneer setuptools-git-versioning poetry-dynamic-versioning tomli toml packaging
""")
_BUILDS: Mapping[str, frozenset[str]] = {
    "setuptools": _words("ext-modules cmdclass data-files script-files"),
    "hatch": _words("force-include shared-data shared-scripts artifacts"),
    "flit": _words("external-data"),
    "poetry": _words("build path"),
    "pdm": _words("run-setuptools custom-hook wheel-data"),
}
_HOOKS = _words("vcs version fancy-pypi-readme")
# In setup.py, as a name: what builds, or runs something else that may.
_BUILD_NAMES = _words("""
    ext_modules Extension cmdclass cythonize Cython cffi_modules rust_extensions RustExtension setuptools_rust skbuild
    build_ext build_py build_clib pybind11 Pybind11Extension CMakeExtension libraries data_files scripts subprocess
    Popen check_call check_output system exec eval runpy import_module __import__ copy copyfile copytree
""")
_BUILD_SECTIONS = re.compile(r"build.*|install.*|develop|global|editable_wheel|options\.data_files")
_BUILD_OPTIONS = _words("scripts data_files cmdclass ext_modules")
_LIFECYCLE = _words("preinstall install postinstall preprepare prepare postprepare prepublish dependencies")
_NODE = (_words("npm ci"), _words("npm install"), _words("npm i"), _words("yarn"), _words("yarn install"),
         _words("pnpm install"), _words("pnpm i"), _words("corepack enable"))  # fmt: skip
_NODE_SWITCHES = _words("""
    --no-audit --no-fund --silent --quiet -q -s --prefer-offline --ignore-scripts --no-progress --frozen-lockfile
    --immutable --legacy-peer-deps --no-optional --include=dev --production=false --loglevel=error
""")
_LOCKED = r"( --(frozen|locked|all-extras|dev|all-groups))*"
_POETRY = r"( --(no-interaction|no-ansi|all-extras|sync|with[ =][\w,-]+))*"
_COMPOSER = r"( --(no-interaction|prefer-dist|no-progress|quiet))*"
# Whole commands, the files that they go by, and words there by which they would take more.
_OTHERS: Sequence[tuple[re.Pattern[str], Sequence[str], re.Pattern[str] | None]] = (
    (re.compile(r"true|:"), (), None),
    (re.compile(r"npm (install|i) (-g|--global)( (@[\w-]+/)?[a-z0-9][\w-]*(@[\w.^~-]+)?)+"), (), None),
    (re.compile(r"go mod download( -x)?"), ("go.mod", "go.sum"), None),
    (re.compile(r"cargo fetch( --locked)?"), ("Cargo.toml", "Cargo.lock"), None),
    (re.compile(f"uv sync{_LOCKED} --no-install-project{_LOCKED}"), ("pyproject.toml", "uv.lock"),
     re.compile(r"\bpath\b|\bworkspace\b|file:")),
    (re.compile(f"poetry install{_POETRY} --no-root{_POETRY}"), ("pyproject.toml", "poetry.lock"),
     re.compile(r"\bpath\b|file:|\"(directory|file)\"")),
    (re.compile(r"bundle install( --(quiet|jobs[ =]\d+|retry[ =]\d+))*"), ("Gemfile", "Gemfile.lock"),
     re.compile(r"\bpath\b|\bgemspec\b|\beval")),
    (re.compile(f"composer install{_COMPOSER} --no-scripts{_COMPOSER}"), ("composer.json", "composer.lock"),
     re.compile(r"\"path\"")),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SetupReach:
    """`again`: commands, or the rest of them, that may take more of the project than `read`, in their order. `read`:
    the files by which those that are known choose what they install."""

    again: tuple[str, ...] = ()
    read: frozenset[str] = frozenset()


async def reach_of(commands: Sequence[str], read: Read, manifests: Sequence[str]) -> SetupReach:
    """`manifests`: all files of the base that are called package.json."""
    known = _Known(read, manifests)
    again = [left for command in commands if (left := await known.left_of(command))]
    return SetupReach(tuple(again), frozenset(known.files))


class _Known:
    def __init__(self, read: Read, manifests: Sequence[str]) -> None:
        self._read, self._manifests = read, manifests
        self.files = set[str]()

    async def left_of(self, command: str) -> str:
        """From the first that is not known to its end, often nothing: what is known leaves no trace in the shell."""
        if len(command) > MAX_COMMAND_CHARS or any(sign in command for sign in "\n\r\\$`"):
            return command
        parts = shlex.shlex(command, posix=True, punctuation_chars=True)
        parts.whitespace_split, parts.commenters = True, ""
        try:
            words = list(parts)
        except ValueError:  # a quotation without an end
            return command
        texts = command.split(AND)  # what is known has none of these in quotes
        while words:
            one = words[: words.index(AND)] if AND in words else words
            if not await self._knows(one):
                return AND.join(texts).strip()
            words, texts = words[len(one) + 1 :], texts[1:]
        return ""

    async def _knows(self, words: Sequence[str]) -> bool:
        match list(words):
            case ["python" | "python3", "-m", "pip", "install", *rest]:
                return await self._pip(rest)
            case ["pip" | "pip3", "install", *rest]:
                return await self._pip(rest)
            case ["uv", "pip", "install", *rest] if "-e" not in rest:  # which takes a project's own sources for others
                return await self._pip(rest)
            case _:
                return await self._node(words) or await self._other(" ".join(words))

    async def _other(self, text: str) -> bool:
        for pattern, files, takes_more in _OTHERS:
            if pattern.fullmatch(text):
                told = [await self._text(name) for name in files]
                return takes_more is None or not any(map(takes_more.search, told))
        return False

    async def _text(self, path: str) -> str:
        self.files.add(path)
        return await self._read(path) or ""

    async def _pip(self, words: Sequence[str]) -> bool:
        rest = list(words)
        while rest:
            word = rest.pop(0)
            name, has_value, value = word.partition("=")
            if name in ("-r", "-c", "--requirement", "--constraint"):
                if not (has_value or rest) or not await self._requirements(value if has_value else rest.pop(0), set()):
                    return False
            elif word in ("-e", "--editable"):
                if not rest or not _ITSELF.fullmatch(rest.pop(0)) or not await self._lays_out():
                    return False
            elif name in _INDEXES:
                if not (has_value or rest) or not _is_index(value if has_value else rest.pop(0)):
                    return False
            elif word not in _PIP_SWITCHES and not _is_foreign(word):
                return False
        return True

    async def _requirements(self, path: str, seen: set[str]) -> bool:
        path = posixpath.normpath(path)
        if path in seen:
            return True
        seen.add(path)
        text = await self._read(path)
        if text is None or len(seen) > MAX_REQUIREMENT_FILES:
            return False
        self.files.add(path)
        for line in text.replace("\\\n", " ").splitlines():
            line = " ".join(_HASH.sub("", _COMMENT.sub("", line)).split())
            option, _, value = line.replace("=", " ", 1).partition(" ")
            if further := _FURTHER.fullmatch(line):
                if not await self._requirements(posixpath.join(posixpath.dirname(path), further[1]), seen):
                    return False
            elif line == "-e .":
                if posixpath.dirname(path) or not await self._lays_out():
                    return False
            elif line and not (option in _INDEXES and _is_index(value)) and not _is_foreign(line):
                return False
        return True

    async def _lays_out(self) -> bool:
        """Is the project one whose installation in place runs none of its code, and copies nothing?"""
        pyproject, setup_py, setup_cfg = [
            await self._text(name) for name in ("pyproject.toml", "setup.py", "setup.cfg")
        ]
        return (
            bool(pyproject or setup_py or setup_cfg)
            and all(map(_is_short, (pyproject, setup_py, setup_cfg)))
            and _is_plain_pyproject(pyproject)
            and (not setup_py or _is_plain_setup(setup_py))
            and _is_plain_setup_cfg(setup_cfg)
        )

    async def _node(self, words: Sequence[str]) -> bool:
        if frozenset(words) - _NODE_SWITCHES not in _NODE or words[0] not in ("npm", "yarn", "pnpm", "corepack"):
            return False
        self.files.update(("package-lock.json", "yarn.lock", "pnpm-lock.yaml"))
        for name in (".npmrc", ".yarnrc", ".yarnrc.yml", ".pnpmfile.cjs", "binding.gyp"):
            if await self._text(name):
                return False
        for path in {"package.json", *self._manifests}:
            if not _is_plain_package(await self._text(path)):
                return False
        return True


def _is_short(text: str) -> bool:
    return len(text) <= MAX_SETTINGS_CHARS and all(len(line) <= MAX_LINE_CHARS for line in text.splitlines())


def _is_index(url: str) -> bool:
    return url.startswith("https://") and not any(sign in url for sign in " $`")


def _is_foreign(requirement: str) -> bool:
    """The name of a package, or an address elsewhere; no file and no folder."""
    told, _, marker = requirement.partition(";")
    told = "".join(told.split())
    name, is_at, address = told.partition("@")
    if told.startswith(_AWAY) or (is_at and _REQUIREMENT.fullmatch(name) and address.startswith(_AWAY)):
        return True
    named = _REQUIREMENT.fullmatch(told.replace("(", "").replace(")", ""))
    return bool(named) and not told.lower().endswith(_ARCHIVES) and "/" not in marker


def _is_plain_pyproject(text: str) -> bool:
    try:
        told = tomllib.loads(text)
        build: dict[str, Any] = told.get("build-system", {})
        tools: dict[str, Any] = told.get("tool", {})
        backend = build.get("build-backend", "")
        names = {re.sub(r"[-_.]+", "-", re.split(r"[^\w.-]", each)[0]).lower() for each in build.get("requires", ())}
        if backend not in _BACKENDS or not names <= _BUILT_WITH or "backend-path" in build or "distutils" in tools:
            return False
        tool, project = _BACKENDS[backend], told.get("project", {})
        keys, hooks = set[str](), set[str]()
        own: Any = tools.get(tool)
        _collect(own, keys, hooks)
        optional = project.get("optional-dependencies", {})
        dependencies = [*project.get("dependencies", ()), *(each for listed in optional.values() for each in listed)]
        return _BUILDS[tool].isdisjoint(keys) and hooks <= _HOOKS and all(map(_is_foreign, dependencies))
    except (tomllib.TOMLDecodeError, AttributeError, TypeError, ValueError, RecursionError):
        return False


def _collect(value: object, keys: set[str], hooks: set[str]) -> None:
    """The keys of all tables in it, and the names of what is hooked into the build."""
    if isinstance(value, dict):
        for key, inner in cast("dict[str, object]", value).items():
            keys.add(key)
            _collect(inner, keys, hooks)
            if key == "hooks" and isinstance(inner, dict):
                hooks.update(cast("dict[str, object]", inner))
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            _collect(inner, keys, hooks)


def _is_plain_setup(text: str) -> bool:
    """Does it name nothing that builds?"""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = set[str]()
    for node in nodes:
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)) | ast.alias(name=name):
                names.update(name.split("."))
            case ast.ImportFrom(module=str(module)):
                names.update(module.split("."))
            case ast.Constant(value=str(word)):
                names.add(word)
            case _:
                pass
    return names.isdisjoint(_BUILD_NAMES)


def _is_plain_setup_cfg(text: str) -> bool:
    config = ConfigParser(interpolation=None, strict=False)
    try:
        config.read_string(text)
    except ConfigError:
        return False
    options = set(config["options"]) if config.has_section("options") else set[str]()
    builds = any(map(_BUILD_SECTIONS.fullmatch, config.sections())) or not options.isdisjoint(_BUILD_OPTIONS)
    return not builds and "@ file:" not in text


def _is_plain_package(text: str) -> bool:
    if not text:
        return True
    try:
        told = json.loads(text)
        return _LIFECYCLE.isdisjoint(told.get("scripts", {})) and not re.search(r'"(file|link|portal|patch):', text)
    except (ValueError, AttributeError, TypeError, RecursionError):
        return False
