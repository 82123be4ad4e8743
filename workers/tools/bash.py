"""`bash`: a shell command in the sandbox."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from secrets import token_hex
from typing import Any

from envelope.redaction import redact_head
from envelope.tracing.spans import variables
from sandbox.base import WORKSPACE, Command, ExecResult, Sandbox
from sandbox.errors import PathError

from ..permissions.paths import touched
from ..permissions.shell import Unparsable, read
from . import bash_jobs
from .base import Target, ToolContext, ToolResult
from .errors import ToolError
from .paths import absolute, looked_in, outside
from .schema import count, flag, parameters, text
from .spill import spill
from .truncate import truncate

# What users of agents know: two minutes run most test-suites, ten build most projects.
DEFAULT_TIMEOUT_MS = 120_000
MAX_TIMEOUT_MS = 600_000
# A title is one line of a live tree.
TITLE_CHARS = 100
# What may leave a shell in another folder than it began in.
_MOVES = re.compile(r"\b(?:cd|pushd|popd|source|eval)\b|(?:^|[\s;&|({])\.\s")
MAX_PATH_BYTES = 4096


class Bash:
    name = "bash"
    description = (
        "Run a shell command in the sandbox; stdin is closed, and there is no network but what the system prompt names."
        " stdout and stderr come together,"
        f" long output loses its beginning. Default time-out {DEFAULT_TIMEOUT_MS} ms, at most {MAX_TIMEOUT_MS} ms."
        " Every call is a fresh shell, but begins where the last one went with cd; workdir is for one call."
        " A server or a long build: run_in_background, then bash_output and bash_stop with the id that you get."
        " Use the file tools to read, search and edit."
    )
    parameters = parameters(
        ["command"],
        command=text("the command line"),
        timeout=count("time-out in milliseconds"),
        workdir=text(f"directory to run this call in (relative ones are in {WORKSPACE})"),
        description=text("what it does, in five to ten words"),
        run_in_background=flag("do not wait for its end; no time-out, it ends with the task at the latest"),
    )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        """What it touches outside of the workspace, then each simple command by its text, and code once more. What is
        not understood is judged whole; so is what runs nothing, unless there is nothing in it."""
        text, workdir = arguments["command"], absolute(arguments.get("workdir", WORKSPACE))
        around, here = outside(workdir), looked_in(workdir)
        try:
            line = read(text, workdir)
        except Unparsable:
            return [*around, Target("bash_unparsed", text, here)]
        found = touched(line, workdir)
        around += [target for folder in found.folders for target in outside(folder)]
        judged = [command for command in line.commands if not command.only_moves]
        spelled = [Target("bash", each.pattern, written=each.text * (each.text != each.pattern)) for each in judged]
        spelled += [Target("bash", code) for code in line.code]
        if not spelled and not _is_blank(text):
            spelled = [Target("bash", text)]
        return [
            *dict.fromkeys(around),
            *([Target("bash_unparsed", text)] if found.is_unknown else ()),
            *_looking(spelled, [path for path in (here, *found.looked_in) if path not in ("", WORKSPACE)]),
        ]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return arguments.get("description") or redact_head(arguments["command"], TITLE_CHARS)

    async def preview(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        """The exact command, where it runs if that is not the workspace, and whether it goes on running."""
        workdir = absolute(arguments.get("workdir", WORKSPACE))
        where = "" if workdir == WORKSPACE else f"\n(in {workdir})"
        stays = "\n(in the background)" if arguments.get("run_in_background") else ""
        return f"{arguments['command']}{where}{stays}"

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> ToolResult:
        sandbox = await context.sandbox()
        timeout_ms = min(arguments.get("timeout", DEFAULT_TIMEOUT_MS), MAX_TIMEOUT_MS)
        cwd = absolute(arguments.get("workdir", WORKSPACE))
        context.may_have_written = True
        env = {**context.shell_environment, **variables()}
        in_background = arguments.get("run_in_background", False)
        stays = cwd == (context.cwd or context.folder)  # else it is for this call alone
        moves = stays and not in_background and _MOVES.search(arguments["command"])
        note = f"/tmp/.cwd-{token_hex(8)}" if moves else ""  # noqa: S108
        # subshells and other programs do not run the trap
        text = f"trap 'pwd -P >{note} 2>/dev/null' EXIT; {arguments['command']}" if note else arguments["command"]
        command = Command(text, cwd=cwd, timeout_s=timeout_ms / 1000, env=env)
        heard = bytearray()
        try:
            if in_background:
                return await self._started(context, sandbox, command, self.title(arguments))
            async with context.permit():
                ended = await sandbox.exec(command, heard.extend)
        except asyncio.CancelledError:
            context.cut_short[call_id] = truncate(heard.decode("utf-8", "replace").rstrip("\n"), keep="tail")
            raise
        except PathError as e:
            if not (context.cwd and stays):
                raise
            context.cwd = ""
            begins = f"commands begin in {context.folder} again"
            raise ToolError(f"nothing was run: the working directory {cwd} is gone ({e}); {begins}") from e
        context.left_running |= bool(ended.left)
        told = await _output_text(context, call_id, ended, timeout_ms)
        went = await _noted_folder(sandbox, note) if note else cwd
        if not went:  # it is gone or has an odd name, or the shell became another program
            told = f"{told}\n(where it ended cannot be told: the next call begins in {cwd})"
        elif went != cwd:
            context.cwd = "" if went == context.folder else went
            told = f"{told}\n(the working directory is {went} now)"
        told = "\n".join([told, *await bash_jobs.ended(context, sandbox)])
        facts = {"exit_code": ended.exit_code, "timed_out": ended.timed_out}
        return ToolResult(told, self.title(arguments), metadata=facts)

    async def _started(self, context: ToolContext, sandbox: Sandbox, command: Command, title: str) -> ToolResult:
        ended = await bash_jobs.ended(context, sandbox)
        name = await bash_jobs.start(context, sandbox, command)
        told = f"Started in the background as {name}: bash_output tells what it says, bash_stop ends it."
        return ToolResult("\n".join([told, *ended]), title, metadata={"bash_id": name})


def in_working_directory(tool: str, arguments: Mapping[str, Any], context: ToolContext) -> Mapping[str, Any]:
    """The arguments of a call with the folder in which it runs, where that is not the one that all begins in."""
    return {"workdir": context.cwd, **arguments} if tool == Bash.name and context.cwd else arguments


async def _noted_folder(sandbox: Sandbox, note: str) -> str:
    """Where a shell ended that has told so; what it says is only where the next one is started, and judged."""
    try:
        said = await sandbox.read(note, max_bytes=MAX_PATH_BYTES)
        await sandbox.exec(Command(["rm", "-f", note]))
        path = said.decode().removesuffix("\n")
    except (PathError, UnicodeDecodeError):  # it was killed, or has become another program
        return ""
    return path if path.startswith("/") and not re.search(r"[\n\0]", path) else ""


def _is_blank(text: str) -> bool:
    """Does an understood text hold nothing but comments?"""
    return all(line.strip(" \t")[:1] in ("", "#") for line in text.split("\n"))


def _looking(judged: Sequence[Target], paths: Sequence[str]) -> Iterator[Target]:
    """The targets with places in which to look for links, and more of them only where there are more places."""
    for index in range(max(len(judged), len(paths)) if judged else 0):
        yield replace(judged[min(index, len(judged) - 1)], path=paths[index] if index < len(paths) else "")


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
    if ended.left and not ended.timed_out:
        running = "; ".join(name[:TITLE_CHARS] for name in ended.left)
        parts.append(f"(left running, until this task ends or any command takes too long: {running})")
    return "\n".join(parts)
