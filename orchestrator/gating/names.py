"""File names of tests, and of what belongs to the gate: tables. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase

from envelope.pattern import match

TEST_FOLDERS = frozenset(
    ("tests", "test", "testing", "__tests__", "__snapshots__", "__mocks__", "spec", "specs", "e2e", "testdata")
)
TEST_FILES = (
    *("test_*.py", "*_test.py", "tests.py", "conftest.py", "*_test.go", "*_test.rs", "*_spec.rb", "*_test.rb"),
    *("*.test.[jt]s", "*.test.[jt]sx", "*.test.[cm][jt]s", "*.spec.[jt]s", "*.spec.[jt]sx", "*.spec.[cm][jt]s"),
    *("*Test.java", "*Tests.java", "Test*.java", "*IT.java", "*Test.kt", "*Tests.kt", "*Spec.scala", "*Test.scala"),
    *("*Test.php", "*Tests.cs", "*Test.cs", "*_test.exs", "*_test.cc", "*_test.cpp", "*Tests.swift", "*.bats"),
    "*.snap",
)
# They run what their tables name; no test runs them.
TASK_RUNNERS = ("tox", "hatch", "pdm", "poe")
DOCUMENTERS = ("sphinx", "mkdocs")  # known here, and named in so many texts that only a command of theirs counts
# Checkers and formatters, and what else no runner of tests reads: their settings count where a gate runs them. Each
# with the files that are theirs alone, but for those that `settings_like` finds by its name.
CHECKERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *("black", "isort", "yapf", "autopep8", "autoflake", "docformatter", "pyupgrade", "pydocstyle"),
            *("pyflakes", "pytype", "pyre", "pyrefly", "ty", "vulture", "codespell", "typos"),
            *("interrogate", "djlint", "sqlfluff", "deptry", "check-manifest", "check-wheel-contents", "doc8", "ssort"),
            *("unimport", *DOCUMENTERS, "numpydoc", "pydoclint", "darglint", "refurb", "radon", "xenon"),
            *("creosote", "pyproject-fmt", "jshint", "dprint", "stylelint", "textlint", "shellcheck", "ansible-lint"),
            *("hadolint", "swiftlint", "swiftformat", "scalafmt", "scalafix", "luacheck", "stylua", "taplo", "tflint"),
            *("lychee", "gitleaks", "actionlint", "phpcs", "clang-tidy", "clang-format"),
        ),
        (),
    ),
    "ruff": ("ruff.toml", ".ruff.toml"),
    "mypy": ("mypy.ini", ".mypy.ini"),
    "flake8": (".flake8",),
    "pylint": (".pylintrc", "pylintrc", "pylintrc.toml", ".pylintrc.toml"),
    "bandit": (".bandit", "bandit.y*ml"),
    "pycodestyle": (".pycodestyle", ".pep8"),
    **dict.fromkeys(("pyright", "basedpyright"), ("pyrightconfig.json",)),
    **dict.fromkeys(("pre-commit", "prek"), (".pre-commit-config.yaml",)),
    **dict.fromkeys(("import-linter", "lint-imports"), (".importlinter",)),
    "eslint": ("eslint.config.*", ".eslintrc*", ".eslintignore"),
    "biome": ("biome.json*", ".biome.json*"),
    "prettier": ("prettier.config.*", ".prettierrc*", ".prettierignore", ".editorconfig"),
    **dict.fromkeys(("shfmt", "editorconfig-checker"), (".editorconfig",)),
    "oxlint": (".oxlintrc*", "oxlint.config.*"),
    "tslint": ("tslint.json",),
    "knip": ("knip.json*", ".knip.json*", "knip.config.*", "knip.[jt]s"),
    "cspell": ("cspell.json*", ".cspell.json*", "cspell.config.*", "cspell.y*ml", ".cspell.*"),
    "commitlint": (".commitlintrc*", "commitlint.config.*"),
    **dict.fromkeys(("markdownlint", "markdownlint-cli2"), (".markdownlint*",)),
    "yamllint": (".yamllint*",),
    "vale": (".vale.ini", "_vale.ini", "vale.ini"),
    "semgrep": (".semgrep*", "semgrep.y*ml"),
    "golangci-lint": (".golangci.*", "golangci.*"),
    "clippy": ("clippy.toml", ".clippy.toml"),
    "rustfmt": ("rustfmt.toml", ".rustfmt.toml"),
    "rubocop": (".rubocop*.yml", ".rubocop"),
    "phpstan": ("phpstan*.neon*", "phpstan-baseline.*"),
    "psalm": ("psalm.xml*", "psalm-baseline.xml"),
    "php-cs-fixer": (".php-cs-fixer*", ".php_cs*"),
    "credo": (".credo.exs",),
    "cpplint": ("CPPLINT.cfg",),
    "cppcheck": (".cppcheck*",),
    "ktlint": (".editorconfig", ".ktlint*"),
    "detekt": ("detekt*.y*ml",),
    "checkstyle": ("checkstyle*.xml",),
    "scalastyle": ("scalastyle*.xml",),
}
_PACKAGE = ("package.json", "package.yaml", "package.json5")
TASKFILES = tuple(
    f"{name}{dist}.{end}" for name in ("Taskfile", "taskfile") for dist in ("", ".dist") for end in ("yml", "yaml")
)
# program → the files in its folder that tell it what to do
READ_BY: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("make", "gmake"), ("GNUmakefile", "makefile", "Makefile")),
    **dict.fromkeys(("npm", "yarn", "pnpm", "bun", "lerna", "wireit"), _PACKAGE),
    "tox": ("tox.ini", "tox.toml", "pyproject.toml"),
    "nox": ("noxfile.py",),
    **dict.fromkeys(("pre-commit", "prek"), (".pre-commit-config.yaml",)),
    "just": ("justfile", "Justfile", ".justfile", "JUSTFILE"),
    **dict.fromkeys(("task", "go-task"), TASKFILES),
    "rake": ("Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"),
    "composer": ("composer.json",),
    **dict.fromkeys(
        ("inv", "invoke"), ("tasks.py", "tasks/__init__.py", "invoke.yaml", "invoke.yml", "invoke.json", "invoke.py")
    ),
    "fab": ("fabfile.py", "fabfile/__init__.py"),
    "doit": ("dodo.py", "doit.cfg"),
    **dict.fromkeys(("poe", "poethepoet"), ("poe_tasks.toml", "poe_tasks.yaml", "poe_tasks.json", "pyproject.toml")),
    "hatch": ("hatch.toml", "pyproject.toml"),
    **dict.fromkeys(("pdm", "poetry", "uv", "rye"), ("pyproject.toml",)),
    "pipenv": ("Pipfile",),
    "pixi": ("pixi.toml",),
    "duty": ("duties.py",),
    "paver": ("pavement.py",),
    "scons": ("SConstruct", "Sconstruct", "sconstruct", "SConscript"),
    "waf": ("wscript",),
    "ninja": ("build.ninja",),
    "grunt": ("Gruntfile.js", "Gruntfile.cjs", "Gruntfile.ts"),
    "gulp": ("gulpfile.js", "gulpfile.mjs", "gulpfile.cjs", "gulpfile.ts"),
    "jake": ("Jakefile", "jakefile", "Jakefile.js", "jakefile.js"),
    "mage": ("magefile.go",),
    "earthly": ("Earthfile",),
    **dict.fromkeys(("mise", "rtx"), ("mise.toml", ".mise.toml", "mise.local.toml", ".tool-versions")),
    "lefthook": ("lefthook.yml", ".lefthook.yml", "lefthook.yaml", "lefthook.toml"),
    **dict.fromkeys(("cargo", "cargo-make"), ("Makefile.toml",)),  # `cargo make`
}
# Of programs that start others, and of checkers by what starts them under another name.
STARTERS: Mapping[str, tuple[str, ...]] = {
    "tox": ("tox.toml",),
    "hatch": ("hatch.toml",),
    **dict.fromkeys(("poe", "poethepoet"), ("poe_tasks.*",)),
    "task": ("[Tt]askfile.y*ml", "[Tt]askfile.dist.y*ml"),
    "rake": ("[Rr]akefile", "[Rr]akefile.rb"),
    **dict.fromkeys(
        ("mvn", "mvnw", "gradle", "gradlew"), ("checkstyle*.xml", "detekt*.y*ml", "pmd*.xml", "spotbugs*.xml")
    ),
    "fmt": ("rustfmt.toml", ".rustfmt.toml"),
}
# Programs that have no settings of their own, or such as everybody has, or that are looked at elsewhere.
_NO_SETTINGS = frozenset(
    (
        *("sh", "bash", "zsh", "dash", "env", "python", "python3", "pypy", "pip", "uv", "poetry", "git", "docker"),
        *("podman", "cd", "test", "set", "export", "echo", "cat", "cp", "rm", "mv", "mkdir", "find", "grep", "sed"),
        *("source", "true", "false", "if", "then", "else", "fi", "for", "do", "done", "while", "case", "run", "time"),
        *("make", "gmake", "cmake", "ctest", "ninja", "npm", "npx", "yarn", "pnpm", "bun", "node", "deno", "go"),
        *("cargo", "rustc", "mvn", "gradle", "dotnet", "ruby", "bundle", "rails", "php", "composer", "mix", "elixir"),
        *("java", "swift", "dart", "flutter", "sudo", "exit", "exec", "ls", "tee", "xargs", "curl", "tar", "config"),
    )
)
_SETTINGS_LIKE = re.compile(r"\..+|.*(?:rc|ignore)|.*\.(?:cfg|conf|ini|toml|neon)|[\w-]+\.conf(?:ig)?\.\w+")
# What ends like this is data as often, but for what lies at the top or among settings.
_MAYBE_SETTINGS = re.compile(r".*\.(?:ya?ml|jsonc?|json5|xml|properties)")
_FOLDERS_OF_SETTINGS = re.compile(r"(?:.*/)?(?:\.?(?:config|configs|conf|settings|github|ci|build|tools|etc|lint))?")
_ENDINGS = re.compile(r"(?:rc|ignore)(?=\.|$)")
_MAX_PARTS = 4  # of a program's name
# Where pytest finds its settings.
PYTEST_SETTINGS = (
    *("pyproject.toml", "pytest.toml", ".pytest.toml", "pytest.ini", ".pytest.ini", "tox.ini", "setup.cfg"),
)
# Those of JavaScript's runners, and of what compiles for them.
JS_SETTINGS = (
    *("jest.config.*", "vitest.config.*", "vitest.workspace.*", ".mocharc*", "karma.conf.*", "ava.config.*"),
    *("playwright.config.*", "cypress.config.*", ".nycrc*", ".c8rc*", "babel.config.*", ".babelrc*"),
)
# Settings and hooks of runners and checkers: whoever writes them decides what passes.
GATE_FILES = (
    *(
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "tox.ini",
        "toxfile.py",
        "noxfile.py",
        "nose.cfg",
    ),
    *(
        "sitecustomize",
        "sitecustomize.*",
        "usercustomize",
        "usercustomize.*",
        "*.pth",
        ".coveragerc",
        ".coveragerc.toml",
    ),
    *(*JS_SETTINGS, "vite.config.*", ".npmrc", ".yarnrc*", ".pnpmfile.*"),
    *("nextest.toml", "phpunit.xml*", "phpunit.dist.xml", ".rspec", ".rspec-local", ".env", ".envrc"),
    *("CTestCustom.cmake", "CTestTestfile.cmake"),
    *(file for files in CHECKERS.values() for file in files),
)
# Installed tools, which no patch has any business with; cargo's folder may name another runner.
TOOL_FOLDERS = frozenset(
    ("node_modules", ".bundle", "venv", ".venv", "site-packages", ".tox", ".nox", ".cargo", ".mvn")
)
# What is said to be installed beside the code: Python's runners load the plugins that it names.
METADATA = ("*.egg-info", "*.dist-info", "EGG-INFO")
IMPORT_ROOTS = frozenset(("", "src", "lib", "python"))


def in_quotes(text: str) -> str:
    """As one word of a shell, to paste: names of files come from repositories.

    >>> print(in_quotes("a'$(b)"))
    'a'"'"'$(b)'
    """
    return "'" + text.replace("'", "'\"'\"'") + "'"


def is_test_file(path: str, more: Iterable[str] = ()) -> bool:
    """By its folder or its name; `more` are a person's patterns.

    >>> is_test_file("pkg/tests/data.json"), is_test_file("src/contest.py"), is_test_file("ui/a.test.tsx")
    (True, False, True)
    """
    *folders, name = path.split("/")
    return not TEST_FOLDERS.isdisjoint(folders) or _named(name, TEST_FILES) or any(match(p, path) for p in more)


def is_gate_file(path: str) -> bool:
    """Does it belong to a runner or a checker, whatever the gate's commands are?"""
    *folders, name = path.split("/")
    is_package = not {"sitecustomize", "usercustomize"}.isdisjoint(folders)
    return is_package or is_installed(path) or _named(name, (*GATE_FILES, *METADATA))


def is_installed(path: str) -> bool:
    """Is it in a folder of installed tools?"""
    folders = path.split("/")[:-1]
    return not TOOL_FOLDERS.isdisjoint(folders) or any(_named(folder, METADATA) for folder in folders)


def checkers_of(path: str) -> tuple[str, ...]:
    """The checkers whose settings this file has, and nothing else."""
    name = posixpath.basename(path)
    return tuple(tool for table in (CHECKERS, STARTERS) for tool, files in table.items() if _named(name, files))


def settings_like(path: str, programs: Collection[str]) -> bool:
    """Does its name say that it has settings of one of these programs? Sources have none, but hidden ones.

    >>> settings_like("conf/.clang-tidy", {"clang-tidy"}), settings_like(".nodemon-ruffle.json", {"ruff"})
    (True, False)
    """
    folder, name = posixpath.split(path)
    is_maybe = _MAYBE_SETTINGS.fullmatch(name) and (not folder or _FOLDERS_OF_SETTINGS.fullmatch(f"/{folder}"))
    if not _SETTINGS_LIKE.fullmatch(name) and not is_maybe:
        return False
    return any(span in programs and span not in _NO_SETTINGS for span in name_spans(name))


def name_spans(name: str, *, first_alone: bool = False) -> Iterator[str]:
    """Names of programs that a file's name may have in it: `.NAMErc`, `NAME.toml`; or that it begins with.

    >>> list(name_spans(".git-cliffrc")), list(name_spans("a.b.cfg", first_alone=True))
    (['git', 'git-cliff', 'cliff'], ['a', 'a-b', 'a-b-cfg'])
    """
    parts = [part for part in re.split(r"[._-]+", _ENDINGS.sub("", name.lower())) if part]
    for at in range(min(len(parts), 1) if first_alone else len(parts)):
        yield from ("-".join(parts[at:to]) for to in range(at + 1, min(at + _MAX_PARTS, len(parts)) + 1))


def is_test_module(path: str) -> bool:
    """One that pytest looks for tests or fixtures in, by its name alone."""
    return _named(posixpath.basename(path), ("test_*.py", "*_test.py", "tests.py", "conftest.py"))


def _named(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
