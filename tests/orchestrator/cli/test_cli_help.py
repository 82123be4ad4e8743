"""`muster --help` is light, and every command explains itself."""

from __future__ import annotations

import subprocess
import sys

import pytest

from orchestrator.cli import commands

pytestmark = pytest.mark.acceptance

HEAVY = ("litellm", "docker", "aiodocker", "redis", "pydantic", "rich", "structlog", "asyncio")

PROBE = """
import sys
from orchestrator.cli.main import run
run(["--help"], verbose=True)
print("HEAVY", *[name for name in {heavy!r} if name in sys.modules])
"""

TOP_HELP = """\
Usage: muster [OPTIONS] COMMAND [ARGS]...

  Run coding agents as a fleet: durable queues, sandboxed tools, merged and
  verified patches.

Options:
  --version             Show the version.
  --install-completion  Install completion for the current shell.
  --show-completion     Show completion for the current shell, to copy it or
                        customize the installation.
  -h, --help            Show this message and exit.

Commands:
  run       Give an agent a goal in a repository, and prove its change.
  init      Write a muster.toml for a repository, guessed from its files.
  batch     Change many files or repositories at once.
  fanout    Ask one thing of many items, each a task of its own.
  eval      Compare models, agents and prompts on cases with gates.
  plan      Check a plan, and see how far one is.
  task      See, stop and use tasks.
  attach    Follow a task that goes on without you, to its end.
  session   See, copy, share and put away sessions with agents.
  agents    See, check and write agents.
  skills    Give agents skills, pinned by hash.
  trust     Follow what a repository's own settings say.
  budget    See what is spent, and let more be spent.
  ask       See and answer what tasks ask people.
  dlq       See, repeat and drop tasks that nobody could do.
  pool      See the pools, and what tenants get of them.
  top       Watch the fleet: pools, workers, and all that is under way.
  up        Start the fleet of this machine.
  down      Stop the fleet of this machine.
  serve     Serve the console, the HTTP API and MCP.
  acp       Be the agent of an editor (Agent Client Protocol).
  mcp       Be an MCP server for a coding agent or an editor.
  token     Say who may use the console and the HTTP API.
  doctor    Check every part that Muster needs.
  publish   Bring what was made to where people review it.
  webhook   See who outside hears what happens, and try again.
  audit     See who decided what, and check that the log of it is whole.
  keys      See and change the keys that sign messages.
  config    See the settings, and where each comes from.
  schema    Print the JSON Schema of the messages.
  commands  See the commands that `muster run /name` knows.
  replay    Run a recorded task again, offline.
  sandbox   Build the sandbox image, and clean up what sandboxes left.

  muster COMMAND --help says more. --verbose, anywhere, shows the whole
  traceback of an error.
"""


# What a run would wait for before it can submit, and needs later or never; each takes as long as the submit itself.
LATER = (
    *("litellm", "aiodocker", "aiohttp", "jsonschema", "tree_sitter", "prometheus_client", "rich", "structlog"),
    *("workers", "sandbox", "jwt.api_jwt", "cryptography.x509", "orchestrator.batch.spec"),
)


def test_a_run_waits_for_nothing_that_it_needs_only_later():
    probe = f"import sys, orchestrator.cli.run, transport.redis; print(*[n for n in {LATER!r} if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_list_of_tasks_waits_for_no_code_of_workers():
    probe = f"""
import sys
from orchestrator.cli.commands import build_app
build_app(["task", "list"])
print(*[n for n in {LATER!r} if n in sys.modules and n != "rich"])
"""
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_a_command_without_commands_of_its_own_looks_for_no_plugins(monkeypatch):
    looked_for = []
    monkeypatch.setattr(commands, "entry_points", lambda group: looked_for.append(group) or [])

    commands.build_app(["schema"])
    assert looked_for == []
    commands.build_app(["task", "list"])
    assert looked_for == []  # it stands alone
    commands.build_app(["task", "show"])
    assert looked_for == [commands.PLUGINS]


def test_help_imports_nothing_heavy():
    probe = PROBE.format(heavy=HEAVY)
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1].split() == ["HEAVY"]


def test_the_help_lists_every_command(desk):
    done = desk.muster("--help", env={"COLUMNS": "80"})
    assert (done.exit_code, done.stdout) == (0, TOP_HELP)


def test_without_words_the_help_is_shown(desk):
    assert desk.muster(env={"COLUMNS": "80"}).stdout == TOP_HELP


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run",), ("--agent", "--gate", "--setup", "--budget", "--deadline", "--model", "--allow", "--detach")),
        (("batch", "run"), ("FILE", "--detach", "--json", "--no-input", "--allow-dirty")),
        (("batch",), ("run", "attach", "list", "show")),
        (("task",), ("list", "show", "watch", "cancel", "diff", "apply", "logs", "prompt")),
        (("task", "logs"), ("--follow", "-f", "--json")),
        (("dlq",), ("list", "show", "requeue", "purge")),
        (("dlq", "purge"), ("--all", "--yes")),
        (("pool",), ("list", "tenants", "allot")),
        (("pool", "allot"), ("--weight", "--max-running")),
        (("publish",), ("task", "status", "sync", "comment", "close", "muster publish TASK --to request")),
        (("webhook",), ("list", "test", "retry")),
        (("audit",), ("list", "verify", "export")),
        (("up",), ("--detach",)),
        (("down",), ("What is not done yet goes on",)),
        (("doctor",), ("--json",)),
        (("keys",), ("list", "add", "rotate", "retire")),
        (("config", "show"), ("--origin",)),
        (("schema",), ("request, progress, result, event, plan, batch",)),
    ],
)
def test_every_command_tells_its_options(desk, words, told):
    done = desk.muster(*words, "--help", env={"COLUMNS": "200"})
    assert done.exit_code == 0, done.stderr
    assert not [part for part in told if part not in done.stdout]


def test_the_version_is_told(desk):
    assert desk.muster("--version").stdout.startswith("muster ")


def test_completion_knows_the_options_of_a_command(desk):
    asked = {"_MUSTER_COMPLETE": "complete_bash", "COMP_WORDS": "muster run --g", "COMP_CWORD": "2"}
    assert "--gate" in desk.muster(env=asked).stdout


def test_completion_knows_the_agents_of_this_machine(desk):
    asked = {"_MUSTER_COMPLETE": "complete_bash", "COMP_WORDS": "muster run x --agent ", "COMP_CWORD": "4"}
    assert {"build", "plan"} <= set(desk.muster(env=asked).stdout.split())


def test_completion_starts_no_fleet_and_shows_no_error(desk):
    asked = {"_MUSTER_COMPLETE": "complete_bash", "COMP_WORDS": "muster task show ", "COMP_CWORD": "3"}
    alone = desk.muster(env=asked)
    assert not (desk.home / "state").exists()
    lost = desk.muster(env=asked | {"MUSTER_REDIS_URL": "redis://127.0.0.1:1/0"})
    assert [(done.stdout.strip(), done.stderr) for done in (alone, lost)] == [("", ""), ("", "")]


def test_the_settings_are_shown_without_their_passwords(desk):
    done = desk.muster("config", "show", "--origin", env={"MUSTER_REDIS_URL": "redis://:open-sesame@example.org/0"})
    assert done.exit_code == 0, done.stderr
    assert "open-sesame" not in done.stdout
    assert "redis://[redacted]@example.org/0" in done.stdout
