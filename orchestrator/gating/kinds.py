"""What a file may be, by its name: code, data, or something that a runner may take for its settings. Tables; pure.

What is in none of them is no harmless file: `may_be_settings` and `may_be_code` say so of whatever they do not know.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable

from .build_files import NODE, is_build_file
from .names import CHECKERS, checkers_of, is_test_file, name_spans, settings_like

# Of a project's product or of people: no runner looks for settings in what ends so.
_SOURCES = frozenset(
    (
        *(".py", ".pyi", ".pyx", ".pxd", ".pyw", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue"),
        *(".svelte", ".astro", ".mdx", ".go", ".rs", ".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".inl"),
        *(".ipp", ".tpp", ".cu", ".cuh", ".m", ".mm", ".s", ".S", ".asm", ".f", ".f90", ".F90", ".for", ".java", ".kt"),
        *(
            ".kts",
            ".scala",
            ".groovy",
            ".clj",
            ".cljs",
            ".cljc",
            ".rb",
            ".php",
            ".pl",
            ".pm",
            ".lua",
            ".r",
            ".R",
            ".jl",
        ),
        *(".cs", ".fs", ".fsi", ".fsx", ".vb", ".swift", ".dart", ".ex", ".exs", ".erl", ".hrl", ".hs", ".ml", ".mli"),
        *(
            ".elm",
            ".nim",
            ".zig",
            ".d",
            ".pas",
            ".tcl",
            ".sh",
            ".bash",
            ".zsh",
            ".fish",
            ".ps1",
            ".bat",
            ".cmd",
            ".awk",
        ),
        *(
            ".proto",
            ".thrift",
            ".graphql",
            ".gql",
            ".sql",
            ".jsonnet",
            ".libsonnet",
            ".wgsl",
            ".glsl",
            ".vert",
            ".frag",
            ".sol",
            ".ipynb",
        ),
    )
)
_DATA = frozenset(
    (
        *(
            ".md",
            ".markdown",
            ".dic",
            ".rst",
            ".adoc",
            ".txt",
            ".tex",
            ".bib",
            ".html",
            ".htm",
            ".xhtml",
            ".css",
            ".scss",
        ),
        *(".sass", ".less", ".styl", ".svg", ".csv", ".tsv", ".po", ".pot", ".mo", ".lock", ".j2", ".jinja", ".jinja2"),
        *(
            ".in",
            ".tmpl",
            ".tpl",
            ".mustache",
            ".hbs",
            ".ejs",
            ".erb",
            ".haml",
            ".slim",
            ".pug",
            ".njk",
            ".liquid",
            ".patch",
        ),
        *(".diff", ".log", ".out", ".sum", ".asc", ".pem", ".crt", ".pub", ".sig", ".map", ".example", ".sample"),
        *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".avif", ".ico", ".icns", ".bmp", ".tif", ".tiff", ".psd", ".pdf"),
        *(".woff", ".woff2", ".ttf", ".otf", ".eot", ".mp3", ".mp4", ".wav", ".ogg", ".flac", ".webm", ".mov", ".avi"),
        *(".gz", ".bz2", ".xz", ".zst", ".db", ".sqlite", ".sqlite3", ".npy", ".npz", ".parquet", ".xls", ".xlsx"),
        *(".doc", ".docx", ".ppt", ".pptx", ".odt", ".ods", ".h5", ".onnx", ".safetensors", ".glb", ".gltf", ".stl"),
    )
)
# Data as often as settings: they count by the name of a program that is run (`names.settings_like`).
_EITHER = frozenset((".json", ".jsonc", ".json5", ".jsonl", ".yml", ".yaml", ".xml", ".properties"))
# Read by git, editors, services, and by what releases or deploys: the beginning of a name.
_NO_RUNNERS = frozenset(
    (
        *("env-example", "env-sample", "env-template", "env-dist"),
        *("git", "gitignore", "gitattributes", "gitkeep", "gitlab", "gitreview", "gitpod", "github", "mailmap", "keep"),
        *("hg", "hgtags", "bzr", "editorconfig", "vim", "gvim", "dir-locals", "project", "classpath", "ds-store"),
        *(
            "python-version",
            "node-version",
            "ruby-version",
            "java-version",
            "sdkman",
            "nvm",
            "docker",
            "npm",
            "helm",
            "gcloud",
        ),
        *("vercel", "netlify", "fly", "heroku", "slug", "cf", "wrangler", "nginx", "uwsgi", "gunicorn", "supervisord"),
        *(
            "redis",
            "alembic",
            "htaccess",
            "nojekyll",
            "travis",
            "appveyor",
            "cirrus",
            "drone",
            "woodpecker",
            "buildkite",
        ),
        *("readthedocs", "codecov", "coveralls", "codeclimate", "deepsource", "lgtm", "sonarcloud", "pyup", "renovate"),
        *("dependabot", "mergify", "snyk", "trivy", "sourcery", "coderabbit", "all-contributors", "zenodo", "asf"),
        *("backport", "cruft", "copier-answers", "devcontainer", "replit", "bumpversion", "bumpver", "goreleaser"),
        *(
            "release",
            "release-please",
            "version",
            "git-cliff",
            "cliff",
            "changelog",
            "cz",
            "commitizen",
            "tbump",
            "scriv",
        ),
        *(
            "deny",
            "book",
            "tailwind",
            "postcss",
            "drizzle",
            "lint-staged",
            "husky",
            "cursor",
            "claude",
            "codex",
            "aider",
        ),
    )
)
_FILES_OF_NO_RUNNER = re.compile(r"(?i:docker|container|proc|jenkins|vagrant|brew|caddy|cname|license)file.*")
_NAMED_LIKE_SETTINGS = re.compile(r"\..+|[^.]*(?:rc|ignore)|.*\.(?:cfg|conf|ini|toml|neon)|[\w-]+\.conf(?:ig)?\.\w+")
_OF_JAVASCRIPT = re.compile(r"[\w-]+\.conf(?:ig)?\.[cm]?[jt]s")
_PROGRAM = re.compile(r"(?=.*[a-z])\w(?!.*(?i:file|ignore|rc)$).*")  # and not LICENSE
_LOCK = re.compile(r"[\w-]+[-.]lock\.\w+|npm-shrinkwrap\.json")
_COMPILED = "__pycache__"


def may_be_settings(path: str, runs: Callable[[str], bool]) -> bool:
    """Whoever runs programs beside it: may one of them read it as its settings?

    >>> [may_be_settings(name, bool) for name in ("unittest.cfg", "deps.edn", "Guardfile", ".gitignore", "data.csv")]
    [True, True, True, False, False]
    """
    name = posixpath.basename(path)
    if is_test_file(path) or any(span in _NO_RUNNERS for span in name_spans(name, first_alone=True)):
        return False
    if checkers_of(path) or settings_like(path, CHECKERS.keys()) or _FILES_OF_NO_RUNNER.fullmatch(name):
        return False  # of a checker that is run it is told elsewhere
    if _OF_JAVASCRIPT.fullmatch(name) and not any(map(runs, NODE)):
        return False
    if _NAMED_LIKE_SETTINGS.fullmatch(name):
        return True
    suffix = posixpath.splitext(name)[1]
    return not _is_known(suffix) if suffix else re.fullmatch("(?i:.+file)", name) is not None


def may_be_code(path: str, *, is_binary: bool = False) -> bool:
    """Of the product: it is looked at as code is, or cannot be looked at.

    >>> [may_be_code(name) for name in ("bin/add", "a.vue", "README", "a.toml")], may_be_code("a.so", is_binary=True)
    ([True, True, False, False], True)
    """
    *folders, name = path.split("/")
    suffix = posixpath.splitext(name)[1]
    if is_test_file(path) or _COMPILED in folders or suffix in _SOURCES:
        return suffix in _SOURCES and not is_test_file(path)
    if is_binary or not suffix or suffix in _DATA:
        return suffix not in _DATA if is_binary else not suffix and _PROGRAM.fullmatch(name) is not None
    return suffix not in _EITHER and not _NAMED_LIKE_SETTINGS.fullmatch(name) and not is_build_file(path)


def is_source_or_data(path: str) -> bool:
    """Nothing that a program obeys, unless it is run."""
    name = posixpath.basename(path)
    suffix = posixpath.splitext(name)[1]
    return suffix in _SOURCES or suffix in _DATA or name.isupper() or _LOCK.fullmatch(name) is not None


def may_be_included(path: str) -> bool:
    """By `make`, where nobody can tell what it includes."""
    name = posixpath.basename(path)
    suffix = posixpath.splitext(name)[1]
    is_other = suffix != ".d" and (_is_known(suffix) or suffix == ".toml")
    return not is_other and not name.isupper() and not name.startswith(".git")


# Data that programs may take words from, whatever it is for.
_WORDS = frozenset((".txt", ".in", ".out", ".log", ".example", ".sample", ".map", ".patch", ".diff", ".db", ".sqlite"))
_FOR_PEOPLE = re.compile(
    r"(?i:readme|news|change(?:s|log)|history|release(?:s|[_-]notes)|authors|contributors|maintainers|codeowners|thanks"
    r"|licen[cs]e|copying|notice|todo|install|contributing|security)(?:\.txt)?"
)
_NO_PRODUCT = frozenset(
    (
        *("ci", "conf", "config", "configs", "settings", "build", "tools", "etc", "lint", "scripts", "script", "bin"),
        *("hack", "dev", "make", "mk", "tasks", "checks", "cmake", "github", "gitlab", "circleci"),
    )
)


def folders_of_sources(paths: Iterable[str]) -> frozenset[str]:
    """Those with sources of the product, as their names say; the top is none."""
    found = {posixpath.dirname(path) for path in paths if _is_source(path)}
    return frozenset(folder for folder in found if folder and not _is_apart(folder) and not is_test_file(f"{folder}/x"))


def may_steer(path: str, product: Collection[str]) -> bool:
    """May a runner, or what it starts, be told something by this file? Not by sources, pictures, pages and what build
    files say of dependencies; nor by data below the folders of the `product`.

    >>> [may_steer(name, {"shop"}) for name in ("ci/args.txt", "Makefile", "shop/a.json", "a.json", "a.py", "NEWS.txt")]
    [True, True, False, True, False, False]
    """
    folder, name = posixpath.split(path)
    suffix = posixpath.splitext(name)[1]
    if _is_source(path) or (suffix in _DATA and suffix not in _WORDS) or (is_build_file(path) and suffix != ".mk"):
        return False
    if any(span in _NO_RUNNERS for span in name_spans(name, first_alone=True)) or _FOR_PEOPLE.fullmatch(name):
        return False
    while folder and not _is_apart(folder):
        if folder in product:
            return False
        folder = posixpath.dirname(folder)
    return True


def _is_source(path: str) -> bool:
    folder, name = posixpath.split(path)
    suffix = posixpath.splitext(name)[1]
    return suffix in _SOURCES or (not suffix and not _is_apart(folder) and may_be_code(path))


def _is_apart(folder: str) -> bool:
    return not _NO_PRODUCT.isdisjoint(part.lstrip(".") for part in folder.split("/"))


def _is_known(suffix: str) -> bool:
    return suffix in _SOURCES or suffix in _DATA or suffix in _EITHER
