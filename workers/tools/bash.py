"""`bash`: a shell command in the sandbox."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from envelope.redaction import redact_head
from envelope.tracing.spans import variables
from sandbox.base import WORKSPACE, Command, ExecResult

from ..permissions.paths import touched
from ..permissions.shell import Unparsable, read
from .base import Target, ToolContext, ToolResult
from .paths import absolute, looked_in, outside
from .schema import count, parameters, text
from .spill import spill
from .truncate import truncate

# What users of agents know: two minutes run most test-suites, ten build most projects.
DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000
# A title is one line of a live tree.
TITLE_CHARS = 100


class Bash:
    name = "bash"
    description = (
        "Run a shell command in the sandbox; stdin is closed, and there is no network but what the system prompt names."
        " stdout and stderr come together,"
        f" long output loses its beginning. Default time-out {DEFAULT_TIMEOUT_MS} ms, at most {MAX_TIMEOUT_MS} ms."
        " Every call is a fresh shell: use workdir instead of cd. Use the file tools to read, search and edit."
    )
    parameters = parameters(
        ["command"],
        command=text("the command line"),
        timeout=count("time-out in milliseconds"),
        workdir=text(f"directory to run in (default {WORKSPACE})"),
        description=text("what it does, in five to ten words"),
    )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        """What it touches outside of the workspace, then each simple command by its text. What is not understood is
        judged whole, and asks; whole is judged, too, what runs nothing."""
        text, workdir = arguments["command"], absolute(arguments.get("workdir", WORKSPACE))
        around, here = outside(workdir), looked_in(workdir)
        try:
            line = read(text, workdir)
        except Unparsable:
            return [*around, Target("bash_unparsed", text, here)]
        found = touched(line, workdir)
        around += [target for folder in found.folders for target in outside(folder)]
        judged = [command.text for command in line.commands if not command.only_moves] or [text]
        return [
            *dict.fromkeys(around),
            *([Target("bash_unparsed", text)] if found.is_unknown else ()),
            *_looking(judged, [path for path in (here, *found.looked_in) if path not in ("", WORKSPACE)]),
        ]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments.get("description") or redact_head(arguments["command"], TITLE_CHARS)

    async def preview(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        """The exact command, and where it runs if that is not the workspace."""
        workdir = absolute(arguments.get("workdir", WORKSPACE))
        where = "" if workdir == WORKSPACE else f"\n(in {workdir})"
        return f"{arguments['command']}{where}"

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        sandbox = await context.sandbox()
        timeout_ms = min(arguments.get("timeout", DEFAULT_TIMEOUT_MS), MAX_TIMEOUT_MS)
        cwd = absolute(arguments.get("workdir", WORKSPACE))
        context.may_have_written = True
        env = {**context.shell_environment, **variables()}
        ended = await sandbox.exec(Command(arguments["command"], cwd=cwd, timeout_s=timeout_ms / 1000, env=env))
        told = await _output_text(context, call_id, ended, timeout_ms)
        facts = {"exit_code": ended.exit_code, "timed_out": ended.timed_out}
        return ToolResult(told, self.title(arguments), metadata=facts)


def _looking(judged: Sequence[str], paths: Sequence[str]) -> Iterator[Target]:
    """A target for each command, and more only where there are more places in which to look for links."""
    for index in range(max(len(judged), len(paths))):
        yield Target("bash", judged[min(index, len(judged) - 1)], paths[index] if index < len(paths) else "")


async def _output_text(context: ToolContext, call_id: str, ended: ExecResult, timeout_ms: int) -> str:
    output = ended.output.decode("utf-8", "replace").rstrip("\n")
    cut = truncate(output, keep="tail")
    parts = [cut.text or "(no output)"]
    if cut.notice or ended.truncated_bytes:
        kept_in = await spill(context, call_id, ended.output)
        parts.insert(0, f"(the beginning was cut; up to 1 MiB of the output is in {kept_in}: grep it, or read parts)")
    if ended.timed_out:
        parts.append(f"(stopped: the command took longer than {timeout_ms} ms, and all its processes were ended)")
    elif ended.exit_code:
        parts.append(f"(exit code {ended.exit_code})")
    return "\n".join(parts)
