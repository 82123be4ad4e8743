"""Files that the settings of runners name, and run: setup files, environments, reporters, transforms, plugins."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice

from .build_files import CARGO, CMAKE, NODE, PHP, RUBY, Runs
from .cmake_files import named_by_tests
from .commands import addopts_in
from .kinds import is_source_or_data
from .names import JS_SETTINGS, PYTEST_SETTINGS
from .trees import Trees

MAX_SETTINGS = 200  # files that are looked into
MAX_ROUNDS = 4  # settings that are made of others
MAX_LITERALS = 2000  # of each
MAX_CHARS = 4 * 1024 * 1024  # of all paths that they may mean, before their endings
MAX_PLUGINS = 50  # of each
MAX_NAMED_CHARS, _OF_EACH = 1000, 50
MAX_DEPTH = 50  # of brackets
# pattern of a settings file → who reads it, and the keys that count of it (at any depth; none: all that do not name
# what is tested, where it is written to, and the like)
_SETTINGS: Sequence[tuple[str, tuple[str, ...], frozenset[str]]] = (
    *(
        (pattern, NODE, frozenset[str]())
        for pattern in (*JS_SETTINGS, "web-test-runner.config.*", ".swcrc", "bunfig.toml")
    ),
    ("vite.config.*", NODE, frozenset(("", "test", "plugins"))),
    ("package.json", NODE, frozenset(("jest", "mocha", "ava", "nyc", "c8", "vitest", "babel"))),
    *((pattern, NODE, frozenset(("extends",))) for pattern in ("tsconfig*.json", "jsconfig*.json")),
    *((pattern, NODE, frozenset(("importMap",))) for pattern in ("deno.json", "deno.jsonc")),
    ("CMakeLists.txt", CMAKE, frozenset()),
    ("phpunit.xml*", PHP, frozenset()),
    (".rspec", RUBY, frozenset()),
    ("nextest.toml", CARGO, frozenset()),
    ("Cargo.toml", CARGO, frozenset(("build",))),
)
_NOT_RUN = frozenset(
    (
        *("entry", "input", "include", "exclude", "files", "testMatch", "testRegex", "spec", "specs", "specPattern"),
        *("ignore", "ignored", "collectCoverageFrom", "coveragePathIgnorePatterns", "testPathIgnorePatterns", "root"),
        *("outDir", "outputFile", "content", "public", "watch", "watchFiles", "forceRerunTriggers", "extension"),
        *("dir", "directory", "cacheDirectory", "reportsDirectory", "coverageDirectory", "baseDir"),
        *("coverage", "roots", "modulePaths", "testDir", "outputDir", "snapshotDir", "reporter-option"),
    )
)
# Of what these name, the product is most.
_ALIASES = frozenset(("alias", "moduleNameMapper"))
_MORE_SETTINGS = frozenset(("extends", "preset", "presets", "projects"))
_SUFFIXES = ("", ".js", ".ts", ".mjs", ".cjs", ".mts", ".cts", ".jsx", ".tsx", ".json")
_INDEXES = tuple(f"/index{suffix}" for suffix in _SUFFIXES[1:])
_TOKEN = re.compile(
    r"""//[^\n]*+ | /\*(?:[^*]|\*(?!/))*+(?:\*/)?
      | (?P<text>"(?:[^"\\\n]|\\.)*+"? | '(?:[^'\\\n]|\\.)*+'? | `(?:[^`\\]|\\.)*+`?)(?P<is_key>\s*+:)?
      | (?P<word>[\w$]++)(?P<colon>\s*+:)? | (?P<bracket>[\[\]{}()]) | (?P<end>[,;])""",
    re.VERBOSE,
)
_HERE = re.compile(r"^(?:<rootDir>|\$\{\w+\}|\.)/|^(?=\.\./)")
_TOML_KEY = re.compile(r"^([\w.-]+)\s*=(.*)", re.MULTILINE)
_CONFIG = re.compile(r"(?:conf|jest|vitest|mocha|karma).*\.(?:[cm]?[jt]s|json)$")
_REQUIRED = re.compile(r"(?:--require|-r)[ =]*([\w./-]+)")
_YAML_LINE = re.compile(r"^(?:([\w-]+):)?(.*)$", re.MULTILINE)
_WORD = re.compile(r"[\w@./-]+")
_PLUGIN = re.compile(r"(?:(?<![\w-])-p|\bPYTEST_PLUGINS)[\s:=,\"']*+([A-Za-z_]\w*(?:\.\w+)*)(?![\w:.])")

Named = tuple[tuple[str, ...], str]  # the keys that it stands below, and the text


async def named_by_settings(
    base: Sequence[str],
    trees: Trees,
    *,
    among: Collection[str],
    changed: Iterable[str],
    scripts: Iterable[str],
    texts: Iterable[str],
    subpath: str,
    runs: Runs,
) -> set[str]:
    """Of the paths `among` those that they may mean. Settings that others are made of, and those of
    the `scripts` that look like some, are read, too; what the named files import is not looked at."""
    found = {path for text in texts if "pytest" in text for path in _plugins_in(text, subpath, among)}
    waiting = {path: keys for path in base if (keys := _keys_that_count(path, runs)) is not None}
    waiting |= {path: frozenset[str]() for path in scripts if _CONFIG.search(posixpath.basename(path))}
    above = {folder for path in changed for folder in _above(path)}
    seen = set[str]()
    known = frozenset(base)
    chars_left = MAX_CHARS
    for _ in range(MAX_ROUNDS):
        # those above what is changed come first: where there are very many, the last ones are not read
        order = sorted(
            waiting.keys() - seen, key=lambda path: (posixpath.dirname(path) not in above, path.count("/"), path)
        )
        paths = order[: MAX_SETTINGS - len(seen)]
        seen.update(paths)
        more: dict[str, frozenset[str]] = {}
        for path, text in zip(paths, await trees.texts(paths), strict=True):
            folder, text = posixpath.dirname(path), text or ""
            if posixpath.basename(path) in PYTEST_SETTINGS:
                addopts = "\n".join(addopts_in(text))
                found |= {*_plugins_in(addopts, folder, among), *_files_in(addopts, folder, among)}
                continue
            for keys, named in literals(path, text)[:MAX_LITERALS]:
                if waiting[path] and waiting[path].isdisjoint(keys or ("",)):
                    continue
                chars_left -= len(folder) + len(subpath) + min(len(named), MAX_NAMED_CHARS) + _OF_EACH
                if chars_left < 0:
                    return found
                candidates = {one for one in _candidates(keys, named, folder, subpath) if one in among}
                found |= candidates
                if not keys or not _MORE_SETTINGS.isdisjoint(keys):
                    more |= {one: waiting[path] for one in candidates & known if one.endswith(_SUFFIXES[1:])}
        waiting = more
    return found


def _keys_that_count(path: str, runs: Runs) -> frozenset[str] | None:
    name = posixpath.basename(path)
    if name in PYTEST_SETTINGS:
        return frozenset() if runs("pytest") else None
    for pattern, programs, keys in _SETTINGS:
        if fnmatchcase(name, pattern) and any(map(runs, programs)):
            return keys
    return None


def literals(path: str, text: str) -> list[Named]:
    """The texts in a settings file, each with the keys that it stands below.

    >>> literals("jest.config.js", "module.exports = {setupFiles: ['./a.js']}")
    [(('setupFiles',), './a.js')]
    """
    name = posixpath.basename(path)
    if name == "CMakeLists.txt":
        return [(("",), word) for word in named_by_tests(text)]
    if name == ".rspec":
        return [((), f"{folder}/{one}") for one in _REQUIRED.findall(text) for folder in ("spec", "lib", ".")]
    if name.endswith(".toml"):
        lines = ((found[1], found[2]) for found in _TOML_KEY.finditer(text))
        return [((key, *keys), one) for key, rest in lines for keys, one in _tokens(rest)]
    if name.endswith((".yml", ".yaml")) or (name == ".mocharc" and not text.lstrip().startswith("{")):
        return list(_in_yaml(text))
    return list(_tokens(text))


def _in_yaml(text: str) -> Iterator[Named]:
    key = ""
    for line in _YAML_LINE.finditer(text):
        key = line[1] or key
        yield from (((key,), word) for word in _WORD.findall(line[2]))


def _tokens(text: str) -> Iterator[Named]:
    keys = [""]
    for token in _TOKEN.finditer(text):
        if bracket := token["bracket"]:
            if bracket in "[{(":
                keys.append("")
            elif len(keys) > 1:
                keys.pop()
            if len(keys) > MAX_DEPTH:
                return
        elif token["end"]:
            keys[-1] = ""
        elif token["word"]:
            keys[-1] = token["word"] if token["colon"] else keys[-1]
        elif literal := token["text"]:
            if not token["is_key"] or _HERE.match(literal[1:]):  # `is_slow ? "./a.js" : "./b.js"`
                yield tuple(filter(None, keys)), literal[1:].rstrip(literal[0])
            else:
                keys[-1] = literal.strip(literal[0])


def _candidates(keys: tuple[str, ...], named: str, folder: str, subpath: str) -> Iterator[str]:
    if not _NOT_RUN.isdisjoint(keys) or len(named) > MAX_NAMED_CHARS:
        return
    is_path = _HERE.match(named) is not None
    plain = _HERE.sub("", named)
    if not _ALIASES.isdisjoint(keys) and ("src" in plain.split("/") or posixpath.basename(plain).startswith("index.")):
        return
    if not re.fullmatch(r"[\w@./+-]+", plain) or not (is_path or "/" in plain or "." in plain):
        return
    endings = (*_SUFFIXES, *_INDEXES, ".rb") if is_path or "/" in plain else ("",)
    for place in {folder, subpath}:
        path = posixpath.normpath(posixpath.join(place, plain))
        yield from (f"{path}{ending}" for ending in endings)


def _above(path: str) -> Iterator[str]:
    while path:
        path = posixpath.dirname(path)
        yield path


def _files_in(options: str, folder: str, among: Collection[str]) -> Iterator[str]:
    """That options name, and that are neither code nor data: `--cov-config=ci/cov.ini`; or `@options.txt`."""
    for word in _WORD.findall(options):
        path = posixpath.normpath(posixpath.join(folder, word.lstrip("@")))
        if path in among and (word.startswith("@") or not is_source_or_data(path)):
            yield path


def _plugins_in(text: str, folder: str, among: Collection[str]) -> Iterator[str]:
    """Modules that pytest is told to load: `-p shop.plugin`."""
    for module in {one[1] for one in islice(_PLUGIN.finditer(text), MAX_PLUGINS)}:
        for root in ("", "src"):
            path = posixpath.normpath(posixpath.join(folder, root, module.replace(".", "/")))
            yield from (file for file in (f"{path}.py", f"{path}/__init__.py") if file in among)
