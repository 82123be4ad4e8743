"""Build files: what of them decides what a test is, or what its imports mean. Tables and readers; pure.

A dependency from a registry, its version, and the list of the product's sources are daily work. Whatever leads
elsewhere (a path, a repository, another name), and whatever is about tests, plugins and tools, counts.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, cast

from ..strange_toml import read_toml
from . import cmake_files
from .names import CHECKERS
from .xml_projects import csproj, pom

Runs = Callable[[str], bool]  # may the gate's commands run this program?
Reader = Callable[[str, Runs], object]  # what counts, comparable; ValueError: the text as it stands

NODE = (
    *("node", "npm", "npx", "yarn", "pnpm", "pnpx", "bun", "bunx", "deno", "lerna", "rush", "nx", "turbo", "ng"),
    *("jest", "vitest", "mocha", "ava", "playwright", "cypress", "karma", "jasmine", "tap", "uvu", "qunit", "wtr"),
    *("react-scripts", "vite", "tsx", "ts-node", "tsc", "c8", "nyc"),
)
CMAKE = ("cmake", "ctest", "make", "gmake", "ninja")
BAZEL = ("bazel", "bazelisk")
GO = ("go", "gotestsum", "ginkgo")
CARGO = ("cargo", "nextest", "cross", "rustc")
MAVEN = ("mvn", "mvnw", "mvnd")
GRADLE = ("gradle", "gradlew")
DOTNET = ("dotnet", "msbuild", "nunit", "xunit", "vstest")
RUBY = ("ruby", "bundle", "rspec", "rake", "rails", "minitest", "cucumber")
PHP = ("php", "phpunit", "composer", "pest", "paratest", "codecept", "phpspec", "behat")
TYPE_CHECKERS = ("tsc", "vue-tsc", "tsd", "tsgo")


def _whole(text: str, runs: Runs) -> object:
    return text


def _cmake(text: str, runs: Runs) -> object:
    return cmake_files.what_counts(text)


def _pom(text: str, runs: Runs) -> object:
    return pom(text)


def _msbuild(text: str, runs: Runs) -> object:
    return csproj(text)


def _lines_but(*harmless: str, shortened: str = "", comment: str = "") -> Reader:
    """Reads all lines but `harmless` ones; one that is `shortened` without the group `version` of that pattern."""
    patterns = [re.compile(one) for one in harmless]
    short = re.compile(shortened) if shortened else None

    def read(text: str, runs: Runs) -> object:
        kept: list[str] = []
        for whole_line in text.split("\n"):
            line = whole_line.strip()
            # in a text of several lines `#{…}` and `${…}` are code
            is_comment = comment and line.startswith(comment) and not re.search(r"\*/|/\*|[{$`]", line)
            # a line behind `if (…)` without a brace is what that decides about
            is_alone = not kept or not re.match(r"\s*(?:\}\s*)?(?:if|else|for|while)\b(?!.*\{\s*$)", kept[-1])
            if not line or is_comment or (is_alone and any(pattern.fullmatch(line) for pattern in patterns)):
                continue
            found = short.fullmatch(line) if short else None
            kept.append(line[: found.start("version")] + line[found.end("version") :] if found else whole_line)
        return kept

    return read


# Node

# `file:`, `link:`, `git+ssh:`, `npm:` another name, `owner/repository`, a folder `.fake`, an archive beside it
_LOCAL = re.compile(r"[:/\\]|^\s*\.|\.(?:tgz|tar|tar\.gz)\s*$", re.IGNORECASE)
_ABOUT_PACKAGE = (
    *(
        "version",
        "description",
        "keywords",
        "homepage",
        "bugs",
        "license",
        "licenses",
        "author",
        "contributors",
        "icon",
    ),
    *("maintainers", "funding", "repository", "private", "publishConfig", "files", "man", "engines", "os", "cpu"),
    *("sideEffects", "browserslist", "unpkg", "jsdelivr", "style", "peerDependenciesMeta", "bundledDependencies"),
    *("bundleDependencies", "displayName", "publisher", "categories", "contributes", "activationEvents", "release"),
)
_CHECKERS_OF_NODE = ("standard", "xo", "semistandard", "lint-staged", "husky", "simple-git-hooks", "size-limit")
_SECTIONS = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")


def node_package(package: Mapping[str, Any], runs: Runs) -> object:
    """Of a package.json all keys but those that say nothing to runners, or to checkers that are run, and dependencies
    from a registry under their own names."""
    if not any(map(runs, NODE)):
        return None
    elsewhere = {
        (section, name): spec
        for section in _SECTIONS
        for name, spec in table_in(package, section).items()
        if not isinstance(spec, str) or (_LOCAL.search(spec) and not spec.startswith("catalog:"))
    }
    beside = {*_ABOUT_PACKAGE, *_SECTIONS, "scripts"}
    if not any(map(runs, TYPE_CHECKERS)):
        beside |= {"types", "typings"}
    # as texts: of conditions the first that fits is taken
    kept = {key: json.dumps(value) for key, value in package.items() if key not in beside and _is_used(key, runs)}
    kept["packageManager"] = re.sub(r"@\d[\w.+-]*$", "", str(package.get("packageManager")))
    return kept, elsewhere


def _is_used(key: str, runs: Runs) -> bool:
    tool = re.sub("(?:Config|Ignore)$", "", key)
    return (tool not in CHECKERS and tool not in _CHECKERS_OF_NODE) or runs(tool)


_MEANS_OF_IMPORTS = (
    *("paths", "baseUrl", "rootDirs", "moduleSuffixes", "customConditions", "plugins", "jsxImportSource"),
    *("jsxFactory", "typeRoots", "preserveSymlinks", "moduleResolution"),
)


def _tsconfig(text: str, runs: Runs) -> object:
    found = _jsonc(text)
    if any(map(runs, TYPE_CHECKERS)):
        return found
    options = table_in(found, "compilerOptions")
    return (
        {key: options.get(key) for key in _MEANS_OF_IMPORTS},
        {key: found.get(key) for key in ("extends", "references", "ts-node", "tsc-alias")},
    )


def _deno(text: str, runs: Runs) -> object:
    found = _jsonc(text)
    beside = () if runs("lint") or runs("fmt") else ("lint", "fmt")
    kept = {key: value for key, value in found.items() if key not in ("version", "name", *beside)}
    imports = table_in(found, "imports")
    kept["imports"] = {name: where for name, where in imports.items() if not _is_own_name(name, where)}
    return kept


def _is_own_name(name: str, where: object) -> bool:
    """A package that a registry has by the very name that it is imported by: `jsr:@std/assert@^1`."""
    if not isinstance(where, str) or not where.startswith(("jsr:", "npm:")):
        return False
    package, _, version = where[4:].removeprefix("/").removeprefix(name).partition("@")
    return name in where and not package and re.fullmatch(r"[\w.^~<>= -]*", version) is not None


_TEXT_OR_COMMENT = re.compile(r'("(?:[^"\\\n]|\\.)*+"?)|//[^\n]*+|/\*(?:[^*]|\*(?!/))*+(?:\*/)?')
_TEXT_OR_COMMA = re.compile(r'("(?:[^"\\\n]|\\.)*+"?)|,(?=\s*+[\]}])')


def _jsonc(text: str) -> dict[str, Any]:
    """JSON with comments, and commas at the end."""
    plain = _TEXT_OR_COMMENT.sub(lambda found: found[1] or " ", text.removeprefix("\ufeff"))
    found: object = json.loads(_TEXT_OR_COMMA.sub(lambda found: found[1] or "", plain))
    if not isinstance(found, dict):
        raise ValueError("no object")
    return cast("dict[str, Any]", found)


# `catalog:` and `dependencies:` of YAML, with a version each
_YAML = _lines_but(r"""["']?[@\w/.-]++["']?:\s*["']?(?:any|[\^~>=<]*+\s?\d[\w.+ <>=-]*+)["']?""", comment="#")


# Go


def _go(text: str, runs: Runs) -> object:
    """Directives, but for what is required in which version."""
    kept: list[tuple[str, str]] = []
    block = ""
    for line in text.split("\n"):
        words = line.partition("//")[0].split()
        if block and words == [")"]:
            block = ""
        elif not block and len(words) == 2 and words[1] == "(":
            block = words[0]
        elif not block and words and words[0].endswith("(") and len(words) == 1:
            block = words[0][:-1]
        elif words:
            directive, rest = (block, words) if block else (words[0], words[1:])
            kept.append((directive, " ".join(rest)))
    return [one for one in kept if one[0] not in ("require", "go", "retract")]


# Rust

_ELSEWHERE = ("path", "git", "branch", "tag", "rev", "registry", "registry-index", "package", "workspace")
_RUST_OWN = frozenset(("std", "core", "alloc", "test", "proc_macro"))
_RUST_SECTIONS = ("dependencies", "build-dependencies", "dev-dependencies")


def cargo_manifest(found: Mapping[str, Any], runs: Runs) -> object:
    if not any(map(runs, CARGO)):
        return None
    package = table_in(found, "package")
    keys = ("build", "autotests", "autobenches", "autobins", "autolib", "links")
    elsewhere = {
        name: source
        for section, name, source in _rust_dependencies(found)
        if (section == "dev-dependencies" and source != ("workspace=True",) and source) or name in _RUST_OWN
    }
    return {key: found.get(key) for key in ("patch", "replace")}, {key: package.get(key) for key in keys}, elsewhere


def _rust_dependencies(found: Mapping[str, Any]) -> Iterable[tuple[str, str, tuple[str, ...]]]:
    targets = table_in(found, "target")
    for table in (found, table_in(found, "workspace"), *(table_in(targets, name) for name in targets)):
        for section in _RUST_SECTIONS:
            for name, given in table_in(table, section).items():
                about = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
                source = tuple(f"{key}={about[key]}" for key in _ELSEWHERE if key in about)
                yield section, name, source


def _rust_sources(text: str) -> Mapping[str, object]:
    manifest = read_toml(text)
    name = table_in(manifest, "package").get("name")
    found: dict[str, list[str]] = {"": [str(name)]} if name else {}  # its tests import it by this name
    for _, name, source in _rust_dependencies(manifest):
        found.setdefault(name, []).extend(source)
    return found


# Gradle

_NAME_OF = r"""\(?\s*+["'][\w.-]++:[\w.-]++(?P<version>(?::[\w.+$-]++)?)["']\s*+\)?"""
_gradle = _lines_but(
    rf"(?:implementation|api|compileOnly|runtimeOnly|annotationProcessor|kapt|ksp)\s*+{_NAME_OF}",
    r"""version\s*+=?\s*+["'][\w.+-]++["']""",
    shortened=rf"(?=\w*[tT]est)\w++\s*+{_NAME_OF}",
    comment="//",
)
_properties = _lines_but(r"[\w.-]*[vV]ersion\s*+=\s*+\d[\w.+-]*+", comment="#")


def _catalog(text: str, runs: Runs) -> object:
    found = read_toml(text)
    plugins = {alias: _module(given) for alias, given in table_in(found, "plugins").items()}
    rest = {key: value for key, value in found.items() if key not in ("versions", "libraries", "plugins", "metadata")}
    return rest, plugins


def _catalog_sources(text: str) -> Mapping[str, object]:
    return {alias: _module(given) for alias, given in table_in(read_toml(text), "libraries").items()}


def _module(given: object) -> object:
    if isinstance(given, str):
        return ":".join(given.split(":")[:2]) if given.count(":") > 1 else given.partition(":")[0]
    about = table_in({"": given}, "")
    return about.get("module") or about.get("id") or f"{about.get('group')}:{about.get('name')}"


# Ruby, PHP, Elixir

_VERSIONS = r"""(?:\s*+,\s*+["'][~<>=! \d.\w-]*+["'])*+"""
_GROUPS = r"""(?:\s*+,\s*+(?:require:\s*+false|(?:group|platform)s?:\s*+(?::\w++|\[[:\w, ]*+\])))*+"""
_gemfile = _lines_but(rf"""gem\s++["'][\w.-]++["']{_VERSIONS}{_GROUPS}""", comment="#")
_gemspec = _lines_but(
    rf"""\w+\.add_(?:runtime_|development_)?dependency[ (]\s*+["'][\w.-]++["']{_VERSIONS}\)?""",
    r"""\w+\.(?:version|summary|description|homepage|authors|email|license)\s*+=\s*+["'][^"'#\\]*+["']""",
    comment="#",
)
_mix = _lines_but(
    r"""\{:\w++,\s*+"[~<>=!\w. -]++"(?:,\s*+only:\s*+(?::\w++|\[[:\w, ]*+\]))?(?:,\s*+runtime:\s*+\w++)?\},?""",
    r"""(?:version:|@version)\s*+"[\w.+-]++",?""",
    comment="#",
)


def _composer(text: str, runs: Runs) -> object:
    found = _jsonc(text)
    scripts = {
        name: told
        for name, told in table_in(found, "scripts").items()
        if runs("composer") or name.startswith(("pre-", "post-"))
    }
    keys = ("autoload", "autoload-dev", "repositories", "config", "replace", "provide", "extra")
    return [json.dumps(found.get(key)) for key in keys], scripts


@dataclass(frozen=True, slots=True)
class _BuildFile:
    """`names`: patterns of file names; `programs`: it counts where the gate may run one of these, always without."""

    names: tuple[str, ...]
    programs: tuple[str, ...]
    read: Reader


BUILD_FILES = (
    _BuildFile(("CTestCustom.cmake", "CTestTestfile.cmake"), (), _whole),
    _BuildFile(("CMakeLists.txt", "*.cmake"), CMAKE, _cmake),
    _BuildFile(("CMakePresets.json", "CMakeUserPresets.json", "CMakeCache.txt"), CMAKE, _whole),
    _BuildFile(("meson.build", "meson_options.txt", "meson.options", "*.wrap"), ("meson", "ninja"), _whole),
    _BuildFile(
        ("BUILD", "BUILD.bazel", "WORKSPACE", "WORKSPACE.*", "MODULE.bazel", "*.bzl", ".bazelrc"), BAZEL, _whole
    ),
    _BuildFile(("tsconfig*.json", "jsconfig*.json"), NODE, _tsconfig),
    _BuildFile(("deno.json", "deno.jsonc"), ("deno",), _deno),
    _BuildFile(("bunfig.toml", "import_map.json", "importmap.json", ".swcrc", ".taprc"), NODE, _whole),
    _BuildFile(("web-test-runner.config.*", "jasmine.json", "jasmine.config.*"), NODE, _whole),
    _BuildFile(("pnpm-workspace.yaml",), NODE, _YAML),
    _BuildFile(("go.mod", "go.work"), GO, _go),
    _BuildFile(("rust-toolchain", "rust-toolchain.toml"), CARGO, _whole),
    _BuildFile(("pom.xml",), MAVEN, _pom),
    _BuildFile(("*.gradle", "*.gradle.kts"), GRADLE, _gradle),
    _BuildFile(("gradle.properties",), GRADLE, _properties),
    _BuildFile(("libs.versions.toml",), GRADLE, _catalog),
    _BuildFile(("testng*.xml", "junit-platform.properties"), (*MAVEN, *GRADLE), _whole),
    _BuildFile(("build.sbt",), ("sbt",), _whole),
    _BuildFile(("*.csproj", "*.fsproj", "*.vbproj", "Directory.*.props", "Directory.*.targets"), DOTNET, _msbuild),
    _BuildFile(
        ("*.runsettings", "global.json", "[Nn]u[Gg]et.[Cc]onfig", "*.sln", "*.slnx", "xunit.runner.json"),
        DOTNET,
        _whole,
    ),
    _BuildFile(("Gemfile", "gems.rb"), RUBY, _gemfile),
    _BuildFile(("*.rake",), ("rake",), _whole),
    _BuildFile(("*.gemspec",), RUBY, _gemspec),
    _BuildFile(("composer.json",), PHP, _composer),
    _BuildFile(("mix.exs",), ("mix", "elixir"), _mix),
    _BuildFile(("Package.swift",), ("swift", "xcodebuild"), _whole),
    _BuildFile(("pubspec.yaml",), ("dart", "flutter"), _YAML),
    _BuildFile(("dart_test.yaml",), ("dart", "flutter"), _whole),
)
# What a name stands for: one that both sides of a change have must stand for the same.
SOURCES: Mapping[str, tuple[tuple[str, ...], Callable[[str], Mapping[str, object]]]] = {
    "Cargo.toml": (CARGO, _rust_sources),
    "libs.versions.toml": (GRADLE, _catalog_sources),
}
# Beside a file: files and folders that belong to its tool, with what their names end in.
BESIDE = (
    ("go.mod", "vendor", "", GO),
    ("go.work", "vendor", "", GO),
    ("composer.json", "vendor", "", PHP),
    ("Cargo.toml", "vendor", "", CARGO),
    ("Cargo.toml", "build.rs", "", CARGO),
    ("package.json", "patches", ".patch", NODE),
    ("package.json", ".yarn", "", NODE),
    ("gradlew", "gradle/wrapper", "", GRADLE),
    ("build.sbt", "project", "", ("sbt",)),
    *((f"{kind}.gradle{kts}", "buildSrc", "", GRADLE) for kind in ("settings", "build") for kts in ("", ".kts")),
    ("mix.exs", "config/test.exs", "", ("mix", "elixir")),
    ("Gemfile", "config/environments/test.rb", "", RUBY),
)


def is_build_file(path: str) -> bool:
    return _kind_of(path) is not None


def is_read(path: str, runs: Runs) -> bool:
    """May the gate's commands run a program that reads it?"""
    kind = _kind_of(path)
    return kind is not None and (not kind.programs or any(map(runs, kind.programs)))


def what_counts(path: str, text: str, runs: Runs) -> object:
    """Comparable; `ValueError` where the text as it stands must do."""
    kind = _kind_of(path)
    return kind.read(text, runs) if kind else None


def leads_elsewhere(path: str, before: str, after: str, runs: Runs) -> bool:
    """Does a name that both have stand for something else now?"""
    programs, read = SOURCES.get(posixpath.basename(path), ((), None))
    if read is None or not any(map(runs, programs)):
        return False
    old, new = read(before), read(after)
    return any(old[name] != new[name] for name in old.keys() & new.keys())


def is_beside(path: str, known: Collection[str], runs: Runs) -> bool:
    """Does it belong to a tool whose file, one of those `known`, is beside it?

    >>> is_beside("api/vendor/x/y.go", {"api/go.mod"}, lambda _: True), is_beside("src/build.rs", {"Cargo.toml"}, bool)
    (True, False)
    """
    for marker, name, suffix, programs in BESIDE:
        inside = f"/{path}/"
        at = inside.find(f"/{name}/")
        while at >= 0:
            if inside[1 : at + 1] + marker in known and path.endswith(suffix) and any(map(runs, programs)):
                return True
            at = inside.find(f"/{name}/", at + 1)
    return False


def _kind_of(path: str) -> _BuildFile | None:
    name = posixpath.basename(path)
    return next((one for one in BUILD_FILES if any(fnmatchcase(name, pattern) for pattern in one.names)), None)


def table_in(table: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    """An empty one where there is none."""
    for key in keys:
        found = table.get(key)
        table = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return dict(table)
