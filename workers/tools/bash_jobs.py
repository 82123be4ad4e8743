"""Commands that `bash` has started in the background, and the tools that look at one and end it.

They live in the sandbox, which keeps their output; here is only how far the model has read it. A session that goes on
elsewhere has none of them.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from secrets import token_hex
from typing import Any

from sandbox.base import Command, JobOutput, Sandbox
from sandbox.errors import LimitExceeded, SandboxError, SandboxLost

from .base import BackgroundCommand, Target, ToolContext, ToolResult
from .errors import ToolError
from .schema import count, parameters, text
from .spill import spill
from .truncate import truncate

MAX_WAIT_MS = 600_000
STOP_WAIT_S = 10.0  # what was killed ends at once; a process that the kernel holds may take its time
COMMAND_CHARS = 100


async def start(context: ToolContext, sandbox: Sandbox, command: Command) -> str:
    """The id of a command that now runs in the background."""
    name = f"bash_{token_hex(4)}"
    try:
        job = await sandbox.spawn(command)
    except LimitExceeded as e:
        running = ", ".join(name for name, each in _here(context, sandbox).items() if not each.end_told)
        raise ToolError(f"{e}; end one with bash_stop first: {running}") from e
    context.commands[name] = BackgroundCommand(str(command.command), sandbox, job)
    return name


async def ended(context: ToolContext, sandbox: Sandbox) -> list[str]:
    """A line for each command that has ended since the model last heard of it."""
    lines: list[str] = []
    for name, each in _here(context, sandbox).items():
        if not each.end_told and (code := await _exit_code(each)) is not None and not each.end_told:
            each.end_told = True
            lines.append(f"({name} has ended, exit code {code}: {each.command[:COMMAND_CHARS]!r}; see bash_output)")
    return lines


class BashOutput:
    name = "bash_output"
    description = (
        "What a command in the background (bash with run_in_background) has said since you last looked, and whether it"
        " still runs. You are told when one ends: go on with other work rather than asking again and again."
    )
    parameters = parameters(
        ["bash_id"],
        bash_id=text("the id that bash gave"),
        timeout=count(
            f"wait for its end, at most so many milliseconds (up to {MAX_WAIT_MS}); else it is not waited for"
        ),
    )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        """None of its own: what runs was judged when it was started, and who has no `bash` is not offered this."""
        return []

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments["bash_id"]

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        sandbox, command = await _found(context, arguments["bash_id"])
        wait_s = min(arguments.get("timeout", 0), MAX_WAIT_MS) / 1000
        told, facts = await _told(context, call_id, command, wait_s)
        told = "\n".join([told, *await ended(context, sandbox)])
        return ToolResult(told, command.command[:COMMAND_CHARS], metadata=facts)


class BashStop:
    name = "bash_stop"
    description = "End a command in the background with all its processes, and hear the last of its output."
    parameters = parameters(["bash_id"], bash_id=text("the id that bash gave"))

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        """As of `bash_output`."""
        return []

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments["bash_id"]

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        sandbox, command = await _found(context, arguments["bash_id"])
        had_ended = await _exit_code(command) is not None
        await command.job.stop()
        told, facts = await _told(context, call_id, command, STOP_WAIT_S)
        parts = [told, "(it had ended before)" if had_ended else "(stopped)", *await ended(context, sandbox)]
        return ToolResult("\n".join(parts), command.command[:COMMAND_CHARS], metadata=facts)


def _here(context: ToolContext, sandbox: Sandbox) -> dict[str, BackgroundCommand]:
    """Those of this sandbox: with another one, all of them are gone."""
    return {name: each for name, each in context.commands.items() if each.sandbox is sandbox}


async def _found(context: ToolContext, name: str) -> tuple[Sandbox, BackgroundCommand]:
    sandbox = await context.sandbox()
    here = _here(context, sandbox)
    if name not in here:
        known = f"there are: {', '.join(here)}" if here else "there are none"
        raise ToolError(
            f"there is no command {name[:COMMAND_CHARS]!r} in the background ({known}); they end with their sandbox,"
            " and a session that goes on has a new one: start it again if you need it"
        )
    return sandbox, here[name]


async def _exit_code(command: BackgroundCommand) -> int | None:
    try:
        return (await command.job.peek(max_bytes=0)).exit_code
    except SandboxLost:
        raise
    except SandboxError:  # it ended so long ago that the sandbox has forgotten it
        command.end_told = True
        return None


async def _told(
    context: ToolContext, call_id: str, command: BackgroundCommand, wait_s: float
) -> tuple[str, dict[str, Any]]:
    """What the model has not yet seen of the output, and how the command is; facts for programs."""
    try:
        context.may_have_written = True
        said = await command.job.peek(command.seen_bytes, wait_s=wait_s)
    except SandboxLost:
        raise
    except SandboxError as e:
        raise ToolError("it ended long ago, and its output is no longer kept") from e
    has_ended = said.exit_code is not None
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    output = decoder.decode(said.output, final=has_ended).rstrip("\n")
    half_bytes = len(decoder.getstate()[0])  # the first bytes of a character; the rest is still to come
    cut = truncate(output, keep="tail")
    parts = [cut.text or "(no new output)"]
    if cut.notice:
        kept_in = await spill(context, call_id, said.output)
        parts.insert(0, f"(the beginning was cut; all of it is in {kept_in}: grep it, or read parts)")
    if lost_bytes := said.start_byte - command.seen_bytes:
        parts.insert(0, f"({lost_bytes} bytes before this are lost: only the last 1 MiB of the output is kept)")
    command.seen_bytes = said.start_byte + len(said.output) - half_bytes
    command.end_told |= has_ended
    context.left_running |= bool(said.left)
    return "\n".join([*parts, _state(said)]), {"exit_code": said.exit_code, "running": not has_ended}


def _state(said: JobOutput) -> str:
    if said.exit_code is None:
        return f"(still running, for {said.duration_s:.0f} s)"
    left = f"; left running: {'; '.join(name[:COMMAND_CHARS] for name in said.left)}" if said.left else ""
    return f"(ended after {said.duration_s:.0f} s, exit code {said.exit_code}{left})"
