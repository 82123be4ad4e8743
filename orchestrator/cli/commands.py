"""Which commands there are, and where. Only the module of the command that is called is imported."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points, version
from typing import Annotated, Any

import typer

# Packages that the orchestrator must not import bring their commands along under this name (`pyproject.toml`).
PLUGINS = "muster.commands"
# Where a shell puts the line that it wants completed: bash, then zsh, fish and PowerShell.
COMPLETED_LINES = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")


@dataclass(frozen=True, slots=True)
class Command:
    """`where` is `module:name` of a function, or of a typer application with commands of its own.

    `examples` end its help, a command line each. `alone`: those of its commands that stand in an application of their
    own, which needs less than the whole.
    """

    where: str
    help: str
    examples: Sequence[str] = ()
    alone: Mapping[str, str] = field(default_factory=dict[str, str])

    def load(self, within: str = "") -> Any:
        module, _, name = self.alone.get(within, self.where).partition(":")
        return getattr(import_module(module, __package__), name)


TASK_EXAMPLES = ("muster task list", "muster task diff 4f2a91c0", "muster task apply 4f2a91c0")

COMMANDS: Mapping[str, Command] = {
    "run": Command(
        ".run:run",
        "Give an agent a goal in a repository, and prove its change.",
        (
            'muster run "Replace datetime.utcnow()" --gate "python -m pytest -q" --budget 2',
            'muster run "Which modules have no tests?" --agent explore',
            'muster run "Split the module store" --agent plan --detach',
        ),
    ),
    "init": Command(".init:init", "Write a muster.toml for a repository, guessed from its files."),
    "batch": Command(
        ".batch:app",
        "Change many files or repositories at once.",
        ("muster batch init batch.toml", "muster batch preview batch.toml", "muster batch run batch.toml"),
    ),
    "fanout": Command(
        ".fanout:fanout",
        "Ask one thing of many items, each a task of its own.",
        ("muster fanout explore \"What does {path} export?\" --over 'src/*.py'",),
    ),
    "eval": Command(
        ".eval:evaluate",
        "Compare models, agents and prompts on cases with gates.",
        ("muster eval suite.toml --dry-run", "muster eval suite.toml --report markdown=report.md"),
    ),
    "plan": Command(".plan:app", "Check a plan, and see how far one is."),
    "task": Command(".task:app", "See, stop and use tasks.", TASK_EXAMPLES, {"list": ".task_list:app"}),
    "attach": Command(".task:watch", "Follow a task that goes on without you, to its end."),
    "session": Command(".sessions:app", "See, copy, share and put away sessions with agents."),
    "agents": Command(".agents:app", "See, check and write agents."),
    "skills": Command(".skills:app", "Give agents skills, pinned by hash."),
    "trust": Command(".trust:trust", "Follow what a repository's own settings say."),
    "budget": Command(".budget:app", "See what is spent, and let more be spent."),
    "ask": Command(
        ".ask:app",
        "See and answer what tasks ask people.",
        ("muster ask list", "muster ask answer 4f2a91c0 once"),
    ),
    "dlq": Command(".dlq:app", "See, repeat and drop tasks that nobody could do."),
    "pool": Command(".pool:app", "See the pools, and what tenants get of them."),
    "top": Command(".top:top", "Watch the fleet: pools, workers, and all that is under way."),
    "up": Command(".up:up", "Start the fleet of this machine."),
    "down": Command(".up:down", "Stop the fleet of this machine."),
    "serve": Command(
        ".serve:serve",
        "Serve the console, the HTTP API and MCP.",
        ("muster token create me --role admin", "muster serve"),
    ),
    "acp": Command(".acp:acp", "Be the agent of an editor (Agent Client Protocol)."),
    "mcp": Command(".mcp:mcp", "Be an MCP server for a coding agent or an editor."),
    "token": Command(".token:app", "Say who may use the console and the HTTP API."),
    "doctor": Command(".doctor:doctor", "Check every part that Muster needs."),
    "publish": Command(".publish_command:app", "Bring what was made to where people review it."),
    "webhook": Command(".webhook:app", "See who outside hears what happens, and try again."),
    "audit": Command(".audit:app", "See who decided what, and check that the log of it is whole."),
    "keys": Command(".keys:app", "See and change the keys that sign messages."),
    "config": Command(".config:app", "See the settings, and where each comes from."),
    "schema": Command(".schema:schema", "Print the JSON Schema of the messages."),
}


def build_app(words: Sequence[str]) -> typer.Typer:
    """The application for one command line: the command that it names is real, the others are only listed."""
    app = typer.Typer(
        name="muster",
        help="Run coding agents as a fleet: durable queues, sandboxed tools, merged and verified patches.",
        epilog="muster COMMAND --help says more. --verbose, anywhere, shows the whole traceback of an error.",
        rich_markup_mode=None,  # plain help: importing rich would take longer than everything else
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    called, within = ([word for word in _line_of(words) if not word.startswith("-")] + ["", ""])[:2]
    plugins = {} if called in COMMANDS and not _takes_plugins(COMMANDS[called], within) else _plugins()
    others = {name: plugin for name, plugin in plugins.items() if name not in COMMANDS}
    for name, command in {**COMMANDS, **others}.items():
        if name == called:
            _add(app, name, command, command.load(within))
            if name in plugins and name in COMMANDS and within not in _names(command.load()):
                # its commands join those of ours; who calls one of ours need not wait for them to be imported
                command.load().add_typer(plugins[name].load())
        else:
            app.command(name, help=command.help)(_listed)
    return app


def _takes_plugins(command: Command, within: str) -> bool:
    """Has it commands of its own, to which plugins may add theirs?"""
    return within not in command.alone and isinstance(command.load(), typer.Typer)


def _line_of(words: Sequence[str]) -> Sequence[str]:
    if "_MUSTER_COMPLETE" not in os.environ:
        return words
    return next((os.environ[name] for name in COMPLETED_LINES if name in os.environ), "").split()[1:]


def _add(app: typer.Typer, name: str, command: Command, loaded: Any) -> None:
    epilog = "\n  ".join(("\b\nExamples:", *command.examples)) if command.examples else None
    if not isinstance(loaded, typer.Typer):
        app.command(name, epilog=epilog)(loaded)
    elif epilog is None:
        app.add_typer(loaded, name=name, help=command.help)  # whose own words at the end stay
    else:
        app.add_typer(loaded, name=name, help=command.help, epilog=epilog)


def _names(app: typer.Typer) -> set[str | None]:
    """Its commands, and those of applications that it has taken in."""
    taken_in = (group.typer_instance for group in app.registered_groups if group.typer_instance and not group.name)
    return {command.name for command in app.registered_commands}.union(*map(_names, taken_in))


def _plugins() -> dict[str, Command]:
    return {point.name: Command(point.value, _plugin_help(point)) for point in entry_points(group=PLUGINS)}


def _plugin_help(point: EntryPoint) -> str:
    package = point.value.partition(".")[0]
    return PLUGIN_HELP.get(point.name, f"Commands of the package {package}.")


# Asking a plugin for its help would import it, and what it needs (Docker's client, say).
PLUGIN_HELP = {
    "sandbox": "Build the sandbox image, and clean up what sandboxes left.",
    "commands": "See the commands that `muster run /name` knows.",
    "replay": "Run a recorded task again, offline.",
}


def _listed() -> None:
    """Stands for a command that this command line does not call."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"muster {version('muster')}")
        raise typer.Exit


def _options(
    _version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None: ...
