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
from . import cmake_files, line_files
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


def _of_text(read: Callable[[str], object]) -> Reader:
    return lambda text, _: read(text)


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


# They say what a type checker finds, and what a build writes.
_ABOUT_TYPES = frozenset(
    (
        *("strict", "strictNullChecks", "strictFunctionTypes", "strictBindCallApply", "strictPropertyInitialization"),
        *("strictBuiltinIteratorReturn", "noImplicitAny", "noImplicitThis", "useUnknownInCatchVariables", "checkJs"),
        *("noUnusedLocals", "noUnusedParameters", "exactOptionalPropertyTypes", "noImplicitReturns", "skipLibCheck"),
        *("noFallthroughCasesInSwitch", "noUncheckedIndexedAccess", "noImplicitOverride", "allowUnusedLabels", "lib"),
        *("noPropertyAccessFromIndexSignature", "allowUnreachableCode", "noUncheckedSideEffectImports", "noEmit"),
        *("forceConsistentCasingInFileNames", "skipDefaultLibCheck", "target", "declaration", "declarationMap"),
        *("declarationDir", "emitDeclarationOnly", "sourceMap", "inlineSourceMap", "inlineSources", "removeComments"),
        *("incremental", "composite", "tsBuildInfoFile", "outDir", "pretty", "newLine", "listFiles", "diagnostics"),
        *("isolatedDeclarations", "erasableSyntaxOnly", "noErrorTruncation", "resolveJsonModule"),
        *("allowJs", "stripInternal", "noEmitOnError", "types"),
    )
)
_ABOUT_TSCONFIG = frozenset(("$schema", "display", "compilerOptions", "include", "exclude", "files", "compileOnSave"))


def _tsconfig(text: str, runs: Runs) -> object:
    found = _jsonc(text)
    if any(map(runs, TYPE_CHECKERS)):
        return found
    options = table_in(found, "compilerOptions")
    return (
        {key: value for key, value in options.items() if key not in _ABOUT_TYPES},
        {key: value for key, value in found.items() if key not in _ABOUT_TSCONFIG},
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
_RUST_OF_ITS_OWN = (*_RUST_SECTIONS, "target", "features", "badges")


_ABOUT_CRATE = frozenset(
    (
        *("name", "version", "description", "authors", "license", "license-file", "keywords", "categories", "readme"),
        *("homepage", "repository", "documentation", "publish", "include", "exclude", "rust-version"),
    )
)


def cargo_manifest(found: Mapping[str, Any], runs: Runs) -> object:
    """All but what is told about the package, dependencies from a registry, and features (see `_rust_sources`)."""
    if not any(map(runs, CARGO)):
        return None
    elsewhere = {
        name: source
        for section, name, source in _rust_dependencies(found)
        if (section == "dev-dependencies" and source != ("workspace=True",) and source) or name in _RUST_OWN
    }
    workspace = table_in(found, "workspace")
    rest = {key: value for key, value in found.items() if key not in (*_RUST_OF_ITS_OWN, "package", "workspace")}
    shared = {key: value for key, value in workspace.items() if key not in (*_RUST_SECTIONS, "package", "metadata")}
    packages = [_of_crate(table_in(found, "package")), _of_crate(table_in(workspace, "package"))]
    return rest, shared, packages, _not_of_docs(workspace), elsewhere


def _of_crate(package: Mapping[str, Any]) -> object:
    told = {key: value for key, value in package.items() if key not in (*_ABOUT_CRATE, "metadata")}
    return told, _not_of_docs(package)


def _not_of_docs(table: Mapping[str, Any]) -> object:
    return {key: value for key, value in table_in(table, "metadata").items() if key != "docs"}


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
    features: dict[str, Any] = {"default": [], **table_in(manifest, "features")}
    return {**found, **{f"feature {name}": [str(told)] for name, told in features.items()}}


# Gradle


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


_ABOUT_COMPOSER = frozenset(
    (
        *("name", "version", "description", "keywords", "homepage", "readme", "time", "license", "authors", "support"),
        *("funding", "suggest", "require", "require-dev", "scripts", "scripts-descriptions", "$schema"),
    )
)


def _composer(text: str, runs: Runs) -> object:
    """All keys but what is told about the package, versions, and scripts that neither it nor a command runs."""
    found = _jsonc(text)
    scripts = {
        name: told
        for name, told in table_in(found, "scripts").items()
        if runs("composer") or name.startswith(("pre-", "post-")) or name in ("init", "command")
    }
    kept = {key: json.dumps(value) for key, value in found.items() if key not in _ABOUT_COMPOSER}
    sections = [table_in(found, key) for key in ("require", "require-dev")]
    return kept, scripts, [[one for one in section.items() if not isinstance(one[1], str)] for section in sections]


@dataclass(frozen=True, slots=True)
class _BuildFile:
    """`names`: patterns of file names; `programs`: it counts where the gate may run one of these, always without."""

    names: tuple[str, ...]
    programs: tuple[str, ...]
    read: Reader


BUILD_FILES = (
    _BuildFile(("CTestCustom.cmake", "CTestTestfile.cmake"), (), _whole),
    _BuildFile(("CMakeLists.txt", "*.cmake"), CMAKE, _of_text(cmake_files.what_counts)),
    _BuildFile(("CMakePresets.json", "CMakeUserPresets.json", "CMakeCache.txt"), CMAKE, _whole),
    _BuildFile(("meson.build", "meson_options.txt", "meson.options", "*.wrap"), ("meson", "ninja"), _whole),
    _BuildFile(
        ("BUILD", "BUILD.bazel", "WORKSPACE", "WORKSPACE.*", "MODULE.bazel", "*.bzl", ".bazelrc"), BAZEL, _whole
    ),
    _BuildFile(("tsconfig*.json", "jsconfig*.json"), NODE, _tsconfig),
    _BuildFile(("deno.json", "deno.jsonc"), ("deno",), _deno),
    _BuildFile(("bunfig.toml", "import_map.json", "importmap.json", ".swcrc", ".taprc"), NODE, _whole),
    _BuildFile(("web-test-runner.config.*", "jasmine.json", "jasmine.config.*"), NODE, _whole),
    _BuildFile(("pnpm-workspace.yaml",), NODE, _of_text(line_files.yaml)),
    _BuildFile(("go.mod", "go.work"), GO, _go),
    _BuildFile(("rust-toolchain", "rust-toolchain.toml"), CARGO, _whole),
    _BuildFile(("pom.xml",), MAVEN, _of_text(pom)),
    _BuildFile(("*.gradle", "*.gradle.kts"), GRADLE, _of_text(line_files.gradle)),
    _BuildFile(("gradle.properties",), GRADLE, _of_text(line_files.properties)),
    _BuildFile(("libs.versions.toml",), GRADLE, _catalog),
    _BuildFile(("testng*.xml", "junit-platform.properties"), (*MAVEN, *GRADLE), _whole),
    _BuildFile(("build.sbt",), ("sbt",), _whole),
    _BuildFile(
        ("*.csproj", "*.fsproj", "*.vbproj", "Directory.*.props", "Directory.*.targets"), DOTNET, _of_text(csproj)
    ),
    _BuildFile(
        ("*.runsettings", "global.json", "[Nn]u[Gg]et.[Cc]onfig", "*.sln", "*.slnx", "xunit.runner.json"),
        DOTNET,
        _whole,
    ),
    _BuildFile(("Gemfile", "gems.rb"), RUBY, _of_text(line_files.gemfile)),
    _BuildFile(("*.rake",), ("rake",), _whole),
    _BuildFile(("*.gemspec",), RUBY, _of_text(line_files.gemspec)),
    _BuildFile(("composer.json",), PHP, _composer),
    _BuildFile(("mix.exs",), ("mix", "elixir"), _of_text(line_files.mix)),
    _BuildFile(("Package.swift",), ("swift", "xcodebuild"), _whole),
    _BuildFile(("pubspec.yaml",), ("dart", "flutter"), _of_text(line_files.yaml)),
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
    if line_files.has_odd_ends(text):
        raise ValueError("lines that end for some programs alone")
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
