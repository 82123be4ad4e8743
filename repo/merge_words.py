"""Words in the lines of a patch on which other files may depend, or by which it depends on them. Pure, on its diff.

It only finds where to look: `merge_across.py` reads the files of those that meet here.
"""

from __future__ import annotations

import posixpath
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from .syntaxes import SUFFIXES

if TYPE_CHECKING:  # a process that reads hostile source loads this as well, and has no use for git
    from .changes import FileChange

MAX_DIFF_BYTES = 4 * 1024 * 1024  # more than that is generated, or no source
MAX_ENDS_CHARS = 8 * 1024 * 1024  # of paths that are gone: a tenth of it for ten thousand files of a usual project
MAX_PARTS = 8  # of an import's path: no module of Go is deeper in its repository

# Whoever wrote these lines is not trusted, and no process of its own reads them: each pattern looks at each sign a few
# times at most, so that runs are taken whole (`++`) and begin where they begin (`(?<!`).
_WORD = re.compile(r"[^\W\d]\w+")
_PATHS = re.compile(r"(?<![\w.@~-])[\w.@~-]++(?:/[\w.@~-]++)++|(?<![\w-])[\w-]++\.[a-z]{2,4}\b")
_DEFINES = re.compile(
    r"\b(?:def|class|function\*?|fn|const|let|var|type|interface|trait|struct|enum|record|static|message|mod)\s+([^\W\d]\w*)"
    r"|\bfunc\s+(?:\([^()]*+\)\s*)?(\w+)|^([^\W\d]\w*+)\s*+(?::[^=]*+)?=[^=]"
    r"|^\s++(?:[\w<>\[\],]++\s++(?!\())++(\w++)\s*+\([^;]*+$"
    r"|^export\s+default\s+(?:class|function)?\s*(\w*)|^\s++(?:get |set |async |static )*+(\w++)\([^;]*\{$"
    # members: with a type, with a value, of an enum or a list, of Go, of Java, of an object itself
    r"|^\s++(?:(?:pub|readonly|private|public|protected)(?:\([^)]*+\))?\s++)*+([^\W\d]\w*+)[?!]?\s*+:\s*+[^\s:=]"
    r"|^(?: {2}| {4}|\t)([^\W\d]\w*+)\s*+=[^=]|^\s++([^\W\d]\w*+)(?:\([^()]*+\)|\s*+\{.*\})?,$"
    r"|^\t(?!(?:return|defer|go|case|goto)\s)([^\W\d]\w*+)\s++[\w.*\[\]]++(?:\s++`.*`)?$"
    r"|^\s++(?:(?:private|public|protected|static|final)\s++)++(?:[\w<>\[\],]++\s++(?![=;]))++(\w++)\s*+[=;]"
    r"|\bself\.(\w++)\s*+(?::[^=]*+)?=[^=]"
)
_BRACKETS = re.compile(r"\[[^\]]*+\]")
_EXPORTED = re.compile(r"^(?:module\.exports\s*=|export)\s*\{([^{}]*)\}")
# A line that asks something of those who derive from what it stands in.
_ASKS = re.compile(
    r"abstractmethod|\babstract\b|^\s++[\w<>\[\],.&: -]*+(?<=\w)\??\([^{})]*+\)[^{}]*;\s*$|\.\.\.\s*$"
    r"|^\t\w++\([^{})]*+\)[^{}]*+$"
)
_GO = re.compile(r"(?:func\s+(?:\((?:\w++\s++)?\*?(\w++)[^)]*+\)\s*)?|type\s+|var\s+|const\s+)(\w+)")
_GO_ELSEWHERE = re.compile(r"_(linux|windows|darwin|freebsd|unix|amd64|arm64|wasm|js|386|test)\.go$")
_AFTER = re.compile(
    r"down_revision\b[^=]{0,200}=\s*['\"](\w+)['\"]|dependencies\s*=\s*\[?\(\s*['\"](\w+)['\"],\s*['\"](\w+)['\"]\)"
)
# What files without a language offer to others: whose, in which lines, and in which lines of which files others ask.
_OFFERS = {
    "the target": (
        r"(.*/)?(GNU)?[Mm]akefile|.*\.mk",
        r"([\w.-]+)\s*:(?![:=])",
        r".*",
        r"\bmake\s+(?:-\S+\s+)*([\w.-]+)",
    ),
    "the script": (
        r"(.*/)?package\.json",
        r"\s*\"([\w:.-]+)\"\s*:",
        r".*",
        r"\b(?:npm|pnpm|yarn|bun)\s+run\s+([\w:.-]+)",
    ),
    "the package": (
        r"(.*/)?package\.json",
        r"\s*\"(@?[\w./-]+)\"\s*:\s*\"",
        r".*\.[cm]?[jt]sx?",
        r"(?:\bfrom|\bimport|\brequire\()\s*['\"]((?:@[\w.-]+/)?[\w.-]+)",
    ),
    "the distribution": (
        r"(.*/)?(pyproject\.toml|setup\.cfg|Pipfile|[\w.-]*requirements[\w.-]*\.(txt|in))",
        r"\s*[\"']?([A-Za-z][\w.-]*)\s*(?:\[[^\]]*\]\s*)?(?:[\"'=<>~!;,@].*)?$",
        r".*\.pyi?",
        r"^\s*(?:from|import)\s+([A-Za-z]\w*)",
    ),
    "the crate": (
        r"(.*/)?Cargo\.toml",
        r"([\w-]+)(?:\.workspace)?\s*=",
        r".*\.rs",
        r"\b(?:use|extern\s+crate)\s+([a-z]\w*)|\bfeature\s*=\s*\"([\w-]+)\"",
    ),
    "the workspace's crate": (
        r"(.*/)?Cargo\.toml",
        r"([\w-]+)\s*=(?!\s*\{\s*workspace)",
        r"(.*/)?Cargo\.toml",
        r"^([\w-]+)(?=\s*=\s*\{\s*workspace|\.workspace)",
    ),
    "the module": (
        r"(.*/)?go\.mod",
        r"\s*(?:require\s+)?([\w.-][\w-]*+\.[\w.-]++/[\w./-]++)\s++v",
        r".*\.go",
        r"^\s*(?:import\s+)?(?:\w+\s+)?\"([\w.-][\w-]*+\.[\w.-]++/[^\"]+)\"",
    ),
    "the variable": (
        r"(.*/)?\.env(\.\w+)*",
        r"(?:export\s+)?(\w+)=",
        r".*\.(\w{2,4})",
        r"(?:\benviron(?:\.get)?[\[(]|\bgetenv\(|\benv\.|\bENV\[)\s*['\"]?(\w+)",
    ),
}
_ROOTS = ("templates", "static", "public")  # below them files are known by the rest of their path
_OF_TESTS = re.compile(r"(^|/)(tests?|__tests__|benches|examples)/|_test\.go$|\.(test|spec)\.\w+$|(^|/)test_[^/]*$")
_ENDS = ("/__init__", "/index", "/mod")


@dataclass
class Words:
    """`gone`: paths that it takes away. `mentions`: paths that it begins to name. `lost`: by file, names of definitions
    whose line it took away or changed, or nothing but that it asks for more. `words`: by file, those it begins to use.
    `things_lost`, `things_named`: types of schemas, packages. `offers_lost`, `offers_made`: what Makefiles, manifests
    and the like offer to the files in their folder; `offers_asked`: by offer, the folders that begin to use it.
    `seats`: what one alone can have among the files of a folder."""

    gone: set[str] = field(default_factory=set[str])
    kept: set[str] = field(default_factory=set[str])
    mentions: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    lost: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    words: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    things_lost: set[str] = field(default_factory=set[str])
    things_named: set[str] = field(default_factory=set[str])
    offers_lost: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    offers_made: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])
    offers_asked: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    seats: dict[tuple[str, ...], str] = field(default_factory=dict[tuple[str, ...], str])

    @cached_property
    def naming(self) -> dict[str, list[str]]:
        """The files that begin to name each path."""
        found: dict[str, list[str]] = {}
        for file, mentions in self.mentions.items():
            for one in mentions:
                found.setdefault(one, []).append(file)
        return found

    @cached_property
    def gone_by_name(self) -> dict[str, list[str]]:
        """The paths that it takes away, by each text that may mean them; by its ends only as far as these have room."""
        found: dict[str, list[str]] = {}
        chars_left = MAX_ENDS_CHARS
        for path in sorted(self.gone):
            stem = stem_of(path)
            if stem in self.kept:
                continue
            parts = stem.split("/")
            chars_left -= len(parts) * len(stem) // 2
            ends = ("/".join(parts[at:]) for at in range(1, len(parts) - 1)) if chars_left > 0 else ()
            said = {path, stem, *ends}
            said |= {path.rpartition(f"{root}/")[2] for root in _ROOTS if f"/{root}/" in f"/{path}"}
            for name in said:
                found.setdefault(name, []).append(path)
        return found

    @cached_property
    def lost_in_order(self) -> list[tuple[str, frozenset[str]]]:
        """`lost`, with the words by which a file that uses it may be found."""
        return [
            (path, frozenset((*names, posixpath.basename(stem_of(path)), posixpath.basename(posixpath.dirname(path)))))
            for path, names in sorted(self.lost.items())
        ]

    @cached_property
    def users(self) -> dict[tuple[str, bool], dict[str, list[str]]]:
        """By family of languages, and whether it is asked for tests alone: the files that begin to use each word."""
        found: dict[tuple[str, bool], dict[str, list[str]]] = {}
        for file, words in self.words.items():
            for of_tests in {False, _OF_TESTS.search(file) is not None}:
                users = found.setdefault((_family(file), of_tests), {})
                for word in words:
                    users.setdefault(word, []).append(file)
        return found

    @property
    def takes(self) -> bool:
        """It may let down others."""
        return bool(self.gone or self.lost or self.things_lost or self.offers_lost)


def words_of(diff: bytes, files: Iterable[FileChange]) -> Words:
    found = Words()
    for change in files:
        if change.status == "D":
            found.gone.add(change.path)
        elif change.status == "R" and change.old_path is not None:
            found.gone.add(change.old_path)
        if change.status in "AR":
            found.kept.add(stem_of(change.path))
    if len(diff) > MAX_DIFF_BYTES:
        return found
    for path, removed, added in _lines(diff.decode("utf-8", "replace")):
        _read(found, path, removed, added)
    found.offers_lost -= found.offers_made
    return found


def _lines(diff: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Of each file: its new path (or old one, if it is gone), the lines that went and those that came."""
    for section in re.split(r"^diff --git .*\n", diff, flags=re.MULTILINE)[1:]:
        head, _, rest = section.partition("\n@@ ")
        named = re.search(r"^\+\+\+ b/(.*?)\t?$", head, re.MULTILINE) or re.search(
            r"^--- a/(.*?)\t?$", head, re.MULTILINE
        )
        if named is None:
            continue
        lines = rest.splitlines()[1:]
        yield named[1], [line[1:] for line in lines if line[:1] == "-"], [line[1:] for line in lines if line[:1] == "+"]


def _read(found: Words, path: str, removed: list[str], added: list[str]) -> None:
    folder = posixpath.dirname(path)
    mentions = set(_mentions(folder, path, added)) - set(_mentions(folder, path, removed))
    if mentions:
        found.mentions[path] = mentions
    suffix = posixpath.splitext(path)[1]
    if suffix in (".proto", ".graphql", ".gql"):
        found.things_lost |= set(_types(removed)) - set(_types(added))
        found.things_named |= {word for line in added for word in _WORD.findall(line)} - set(_types(added))
    for kind, (of, line, asking, asks) in _OFFERS.items():
        if re.fullmatch(of, path):
            gone, made = (
                {f"{kind} {one[1]}" for said in lines if (one := re.match(line, said))} for lines in (removed, added)
            )
            found.offers_made |= {(_offer(one), folder) for one in made}
            found.offers_lost |= {(_offer(one), folder) for one in gone - made}
        if re.fullmatch(asking, path):
            for name in {name for said in added for one in re.findall(asks, said) for name in _parts_of(one)}:
                found.offers_asked.setdefault(_offer(f"{kind} {name}"), set()).add(folder)
    if suffix not in SUFFIXES:
        return
    new = {word for line in added for word in _WORD.findall(line)}
    found.words[path] = new | {"default"} if suffix.endswith(("s", "x")) else new
    kept = {said for line in added for said in (line, _python_header(line)) if said}
    names = (
        _first(one) for line in removed if not {line, _python_header(line)} & kept for one in _DEFINES.finditer(line)
    )
    lost = {name or "default" for name in names}
    lost |= _exported(removed) - _exported(added)
    if path not in found.gone and (lost or any(_ASKS.search(line) for line in added)):
        found.lost[path] = lost
    if suffix == ".go" and not _GO_ELSEWHERE.search(path) and not any("//go:build" in line for line in added):
        clauses = [{line for line in lines if line.startswith("package ")} for lines in (removed, added)]
        found.things_lost |= {f"{line} in {folder or '.'}" for line in clauses[0] - clauses[1]}
        found.things_named |= {f"{line} in {folder or '.'}" for line in clauses[1] - clauses[0]}
        said = {(one[1] or "", one[2]) for line in added if (one := _GO.match(line))}
        said -= {(one[1] or "", one[2]) for line in removed if (one := _GO.match(line))}
        found.seats |= {(folder, "Go", *name): path for name in said if name[1] not in ("init", "main", "_")}
    if suffix == ".py" and not removed:
        for one in filter(None, map(_AFTER.search, added)):
            found.seats[(folder, "after", *filter(None, one.groups()))] = path


def _offer(thing: str) -> str:
    """Packages write `-` where code writes `_`."""
    return thing.lower().replace("-", "_")


def _parts_of(found: str | tuple[str, ...]) -> Iterator[str]:
    """What code asks for: itself, or something in it."""
    parts = (found if isinstance(found, str) else next(filter(None, found), "")).split("/")
    yield from ("/".join(parts[:count]) for count in range(1, min(len(parts), MAX_PARTS) + 1))


def _exported(lines: Iterable[str]) -> set[str]:
    return {word for line in lines if (found := _EXPORTED.search(line)) for word in _WORD.findall(found[1])}


def _python_header(line: str) -> str:
    """A function's first line without what is said of its types: who calls it need not know."""
    if not re.match(r"\s*(async )?def \w+\(.*:$", line):
        return ""
    rest, bracket, last = line.rstrip(":").rpartition("]")
    untyped = _BRACKETS.sub("", rest + bracket) + last
    return re.sub(r"(?<!\s)\s*->.*|:[^,=():]*+(?=[,=)])|\s", "", untyped).rstrip(":")


def _types(lines: Iterable[str]) -> Iterator[str]:
    """What a schema defines."""
    for line in lines:
        if found := re.match(r"\s*(?:message|enum|service|type|input|interface|union|scalar)\s+(\w+)", line):
            yield found[1]


def _first(found: re.Match[str]) -> str:
    return next(filter(None, found.groups()), "")


def _mentions(folder: str, path: str, lines: Iterable[str]) -> Iterator[str]:
    """Paths that lines name: as they are, from their own folder, and what imports mean by their dots."""
    for line in lines:
        for said in _PATHS.findall(line):
            yield posixpath.normpath(said)
            yield posixpath.normpath(posixpath.join(folder, said))
        if path.endswith((".py", ".pyi")):
            yield from _python(folder, line)
        elif path.endswith((".java", ".rs")) and (
            found := re.search(r"\b(?:import|use)\s+(?:static\s+)?([\w.:]+)", line)
        ):
            said = re.sub(r"[.:]+", "/", found[1]).removeprefix("crate/")
            yield from (said, f"src/{said}", posixpath.dirname(f"src/{said}"))
        if path.endswith(".java"):
            yield from (posixpath.join(folder, word) for word in _WORD.findall(line))


def _python(folder: str, line: str) -> Iterator[str]:
    if found := re.match(r"\s*+from\s++(\.*+)([\w.]*+)\s++import\s++\(?([\w, ]*)", line):
        start = folder
        for _ in found[1][1:]:
            start = posixpath.dirname(start)
        module = posixpath.join(start if found[1] else "", found[2].replace(".", "/"))
        yield module
        yield from (posixpath.join(module, name) for name in re.findall(r"\w+", found[3]))
    elif found := re.match(r"\s*import\s+([\w., ]+)", line):
        yield from (name.replace(".", "/") for name in re.findall(r"[\w.]+", found[1]))


def stem_of(path: str) -> str:
    """A module without its file's ending; `a/__init__.py` and `a.py` are one."""
    stem = posixpath.splitext(path)[0]
    return next((stem.removesuffix(end) for end in _ENDS if stem.endswith(end)), stem)


def things_gone(taken: Words, other: Words) -> set[str]:
    """What the other one begins to use, in this or a deeper folder, and this one takes away."""
    found = taken.things_lost & other.things_named
    asking: dict[str, list[str]] = {}
    for offer, folder in taken.offers_lost - other.offers_made if other.offers_asked else ():
        if offer not in asking:
            asking[offer] = sorted(f"/{one}/" for one in other.offers_asked.get(offer, ()))
        above = f"/{folder}/" if folder else "/"
        at = bisect_left(asking[offer], above)
        if at < len(asking[offer]) and asking[offer][at].startswith(above):
            found.add(f"{offer} of {folder or '.'}/")
    return found


def names_gone(taken: Words, other: Words) -> set[str]:
    """Files of the other one that begin to name a path that this one takes away."""
    return {
        one
        for name in taken.gone_by_name.keys() & other.naming.keys()
        for path in taken.gone_by_name[name]
        for file in other.naming[name]
        for one in (file, path)
    }


def may_meet(lost: Words, other: Words) -> Iterator[tuple[str, str]]:
    """Pairs of a file of which one patch took names away, and one in which the other patch begins to use some. In
    order, and found one by one: there may be as many as all files by all files."""
    for path, words in lost.lost_in_order if other.words else ():
        # no code but the tests' takes anything from these
        users = other.users.get((_family(path), _OF_TESTS.search(path) is not None), {})
        for file in sorted({file for word in words for file in users.get(word, ())} - {path}):
            yield path, file


def _family(path: str) -> str:
    suffix = posixpath.splitext(path)[1]
    return "script" if suffix[1:] in ("js", "jsx", "mjs", "cjs", "ts", "mts", "cts", "tsx") else suffix[:3]


def reaches(after: bytes, path: str, file: str) -> bool:
    """Whether a file's text says that it uses another file's names at all."""
    stem, folder = stem_of(path), posixpath.dirname(path)
    name, text = posixpath.basename(stem), after.decode("utf-8", "replace")
    if name == "conftest" and (not folder or file.startswith(f"{folder}/")):
        return True
    if path.endswith((".go", ".java")) and folder == posixpath.dirname(file):
        return True
    if path.endswith(".go"):
        return (
            re.search(
                rf'^[ \t]*+(?:import[ \t]+)?(?:\w+[ \t]+)?"(?:[^"\n]*/)?{re.escape(posixpath.basename(folder))}"',
                text,
                re.M,
            )
            is not None
        )
    if path.endswith(".rs"):
        return re.search(rf"\b{re.escape(name)}\b", text) is not None or name in (
            "lib",
            "main",
            posixpath.basename(folder),
        )
    if path.endswith((".py", ".pyi", ".java")):
        return any(_is(said, stem) for said in _mentions(posixpath.dirname(file), file, text.splitlines()))
    return any(posixpath.basename(stem_of(said)) == name for said in re.findall(r"['\"]([^'\"\n]+)['\"]", text))


def _is(said: str, stem: str) -> bool:
    return said == stem or (bool(said) and stem.endswith(f"/{said}"))
