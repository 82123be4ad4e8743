"""Commands whose exit code tells no more than that tests failed, and others."""

from __future__ import annotations

import json
import time

import pytest

from orchestrator.gating.known_ends import unclear_ends
from orchestrator.gating.trees import Trees

MAKEFILE = """PYTHON ?= python3
.PHONY: test lint both bad
both: test lint
\tcd sub && $(MAKE) test
test:
\t@echo "testing; all of it"
\tcd . && $(PYTHON) -m pytest -q
lint:
\truff check . || true
\tmypy . ; echo done
bad:
\tpytest; ruff check .
left:
\t-pytest
\truff check .
script:
\t./ci/stops.sh
"""
FILES = {
    "Makefile": MAKEFILE,
    "package.json": json.dumps(
        {
            "scripts": {
                "test": "jest --ci",
                "pretest": "tsc -p .",
                "all": "jest; eslint .",
                "both": "npm test && eslint .",
            }
        }
    ),
    "ci/stops.sh": "#!/bin/sh\nset -eu\npip install pytest\npytest -q\nruff check .\n",
    "ci/goes_on.sh": "#!/bin/sh\npytest -q\nruff check .\n",
    "run.py": "import subprocess",
    "manage.py": "",
}
PLAIN = (
    "python -m pytest -q",
    "CI=1 timeout 600 uv run python3 -m pytest -q tests 2>&1",
    ".venv/bin/pytest -x > out.txt",
    "pip install -e . && pytest -q && ruff check .",
    "ruff check . ; pytest",
    "cd sub; pytest",
    "(cd sub && pytest)",
    "set -e\npytest unit\npytest integration\n",
    "sh -c 'cd sub && pytest'",
    "bash -ec 'pytest; ruff check .'",
    "pytest | tee log.txt",
    "pytest | tee log.txt && ruff check .",
    "python -m unittest discover -s tests",
    "coverage run -m pytest && coverage report",
    "python manage.py test shop",
    "cargo test --workspace --no-fail-fast",
    "go vet ./... && go test -v ./...",
    "mvn -q -B test",
    "./gradlew check",
    "cmake -B build && cmake --build build && ctest --test-dir build",
    "npx jest --ci",
    "yarn jest",
    "npm ci && npm test",
    "npm run both",
    "node --test",
    "make test",
    "make both",
    "make lint test",
    "make script",
    "./ci/stops.sh",
    "sh ci/stops.sh",
    "tox -e py311",
    "dotnet test",
    "bundle exec rspec",
    "cd sub && sbt test",
)
UNCLEAR = (
    "python -m pytest -q; a=$?; python -m compileall -q . || a=1; exit $a",
    "pytest; ruff check .",
    "pytest | tee log.txt; ruff check .",
    "pytest\nruff check .\n",
    "pytest || ruff check .",
    "pytest & ruff check . ; wait",
    "if ! pytest; then ruff check .; fi",
    "for one in a b; do pytest $one; done",
    "pytest | ./check",
    "sh -c 'pytest; ruff check .'",
    "make -k test",
    "make -ik test",
    "make -j4 both",
    "make bad",
    "make left",
    "MAKEFLAGS=-k make test",
    "npm run all",
    "npm test --workspaces",
    "pnpm -r test",
    "npx run-p test lint",
    "./ci/goes_on.sh",
    "python run.py",
    "./run.py",
    "tox",
    "nox",
    "just test",
    "hatch run test",
    "docker compose run web pytest",
    "mvn -fae verify",
    "./gradlew check --continue",
    "xargs pytest < files",
    "pytest 'unit",
    "true && false",
)


class Base(Trees):
    """The files above."""

    def __init__(self) -> None:
        super().__init__(None, "", "")

    async def paths(self) -> list[str]:
        return list(FILES)

    async def before(self, path: str) -> bytes | None:
        return FILES[path].encode() if path in FILES else None

    async def text(self, path: str, *, after: bool = False) -> str | None:
        return FILES.get(path)


@pytest.mark.parametrize("command", PLAIN)
async def test_what_stops_at_its_first_failure_is_plain(command: str):
    assert await unclear_ends([command], Base(), "") == {}


@pytest.mark.parametrize(
    "text",
    [";" * 100_000, "a " * 50_000, "$(" * 50_000, "'" * 50_001, "pytest\n" * 20_000,
     "#! -" + "e" * 150_000 + "X", "$(a-" * 40_000, "\n" * 150_000, "$" + "a" * 150_000],
)  # fmt: skip
async def test_hostile_commands_are_read_at_once(text: str):
    began_s = time.process_time()
    await unclear_ends([text, f"sh -c '{text}'"], Base(), "")
    assert time.process_time() - began_s < 5


@pytest.mark.parametrize("command", UNCLEAR)
async def test_what_goes_on_or_cannot_be_followed_is_not(command: str):
    assert list(await unclear_ends([command], Base(), "")) == [command]
