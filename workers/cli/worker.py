"""`muster-worker POOL`: one worker process. litellm and the engine's client are imported only once it serves."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from envelope.errors import ExitCode, MusterError, error_text, told_of_file
from envelope.logs import AS_JSON, LEVELS, configure_service

if TYPE_CHECKING:
    from ..settings import WorkerSettings

app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.command()
def worker(
    pool: Annotated[str, typer.Argument(help="The pool to serve: explore, general, build, or your own agents'.")],
    slots: Annotated[int | None, typer.Option(min=1, max=1000, help="Tasks at once [default: 4].")] = None,
    metrics_port: Annotated[int | None, typer.Option(min=0, max=65535, help="Port of /metrics [default: any]")] = None,
    log_level: Annotated[str, typer.Option(envvar="MUSTER_LOG_LEVEL", help=f"{', '.join(LEVELS)}.")] = "info",
    log_format: Annotated[str, typer.Option(envvar="MUSTER_LOG_FORMAT", help="json, text, or auto.")] = "auto",
) -> None:
    """Serve a pool: claim its tasks, run them in sandboxes, send back results.

    The first SIGTERM or interrupt drains: tasks may end within MUSTER_DRAIN_GRACE_S, the rest is given back to the
    queue. A second one does not wait. Settings come from MUSTER_* variables.
    """
    from ..agents.project import own_agents

    if log_level not in LEVELS:
        _fail(f"there is no log level {log_level!r}", f"there are: {', '.join(LEVELS)}", ExitCode.USAGE)
    if log_format not in AS_JSON:
        _fail(f"there is no log format {log_format!r}", f"there are: {', '.join(AS_JSON)}", ExitCode.USAGE)
    configure_service(level=log_level, style=log_format)
    pools = sorted({agent.pool for agent in own_agents().agents.values()})
    if pool not in pools:
        hint = f"there are: {', '.join(pools)}; an agent file of yours may name more"
        _fail(f"there is no pool {pool!r}", hint, ExitCode.USAGE)
    flags = {"slots": slots, "metrics_port": metrics_port}
    _serve(_settings({name: value for name, value in flags.items() if value is not None}), pool)


def _settings(flags: dict[str, int]) -> WorkerSettings:
    from ..errors import BadSettings
    from .usable_settings import usable_settings

    try:
        return usable_settings(**flags)
    except BadSettings as e:
        _fail(e.message, e.hint, ExitCode.USAGE)


def _serve(settings: WorkerSettings, pool: str) -> None:
    from envelope.tracing.starting import traced
    from sandbox.errors import SandboxError
    from transport.errors import Misconfigured
    from transport.state_folder import keep_files_private

    from .. import process
    from ..errors import BadSettings
    from ..service import serve

    async def run() -> None:
        stop, hurry = asyncio.Event(), asyncio.Event()

        def told() -> None:
            (hurry if stop.is_set() else stop).set()

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, told)
        with traced(f"muster-worker-{pool}"):
            await serve(settings, pool, stop=stop, hurry=hurry)

    keep_files_private()
    try:
        process.run(run())
    except (Misconfigured, BadSettings) as e:
        _fail(e.message, e.hint, ExitCode.USAGE)
    except (MusterError, SandboxError) as e:
        _fail(str(e), e.hint, ExitCode.INFRASTRUCTURE)
    except OSError as e:
        if e.filename is None:
            raise
        hint = "name a folder that this user may write to: MUSTER_STATE_DIR"
        _fail(*told_of_file(e, e.filename, f"{e.filename} cannot be used", hint), ExitCode.USAGE)


def _fail(message: str, hint: str, code: ExitCode) -> NoReturn:
    _tell(message, hint)
    raise typer.Exit(code)


def _tell(message: str, hint: str) -> None:
    sys.stderr.write(error_text(message.rstrip("."), hint))


def main() -> None:
    """`muster-worker`, whose errors are told as those of `muster` are."""
    try:
        sys.exit(app(standalone_mode=False))
    except typer.TyperException as e:  # a flag or a value that is wrong
        what = e.format_message().partition(" Did you mean ")[0].partition(" (Possible options:")[0]
        _tell(what[:1].lower() + what[1:], "see `muster-worker --help`")
        sys.exit(ExitCode.USAGE)
    except typer.Abort:
        sys.exit(ExitCode.INTERRUPTED)


if __name__ == "__main__":
    main()
