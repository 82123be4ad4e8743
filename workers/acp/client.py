"""Our end of the protocol: what a program asks of whoever it works for, answered by our tools, rules and people."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from acp import RequestError, schema

from ..permissions.guard import Guard
from ..tools.base import Tool, ToolResult
from ..tools.errors import ToolError
from ..tools.paths import absolute
from .calls import Calls, RefusedByPerson
from .meter import Meter
from .terminals import MAX_OUTPUT_BYTES, Terminal, Terminals
from .told import Told
from .tools import Permission, ReadText, RunCommand, WriteText, command_line, permission

# What a program may be told of all that it was refused in one turn: it has a model's window to think in.
MAX_REASONS_CHARS = 8_000
# A change of a whole repository; each is a permission to be judged, and people read none of more.
MAX_PATHS = 1_000
NOT_WAITED_FOR = "the turn had ended before there was an answer"
NOT_DONE = -32001  # of the range that JSON-RPC leaves to its users
ALLOWS, REJECTS = ("allow_once", "allow_always"), ("reject_once", "reject_always")

T = TypeVar("T")


class EngineClient:
    """`on_refusal` hears a person's plain no, `on_failure` what ends the attempt; the library would hand both on."""

    def __init__(
        self,
        calls: Calls,
        terminals: Terminals,
        told: Told,
        meter: Meter,
        folder: str,
        on_refusal: Callable[[RefusedByPerson], None],
        on_failure: Callable[[BaseException], None],
    ) -> None:
        self._calls, self._terminals, self._told, self._meter = calls, terminals, told, meter
        self._folder, self._on_refusal, self._on_failure = folder, on_refusal, on_failure
        self.session_id = ""  # updates of any other are not looked at
        self._asking: dict[asyncio.Future[ToolResult], Permission] = {}
        self._refused: list[str] = []
        self._progress = 0  # of the program, when it was last refused something

    def refusals(self, *, was_cancelled: bool) -> str:
        """What the program was refused since this was asked, and why, if that was the end of its turn; else empty.

        The protocol has no place for a reason in its no, and some programs stop there: their model has heard nothing.
        One that has said anything since, or has asked its model about what became of its calls, has gone on without.
        What it still asks for at the end of its turn is not wanted any more, and nobody is asked for it.
        """
        stopped = was_cancelled or bool(self._asking) or self._gone == self._progress
        for asking, wanted in self._asking.items():
            asking.cancel()
            self._refused.append(f"- {wanted.name} ({wanted.about}): {NOT_WAITED_FOR}")
        refused, self._refused = self._refused, []
        return "\n".join(dict.fromkeys(refused))[:MAX_REASONS_CHARS] if stopped else ""

    @property
    def _gone(self) -> int:
        """How far its work has come."""
        return self._told.spoken + self._meter.results_read

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        if session_id == self.session_id:
            self._told.take(update)

    async def request_permission(
        self,
        session_id: str,
        tool_call: schema.ToolCallUpdate,
        options: list[schema.PermissionOption],
        **kwargs: Any,
    ) -> schema.RequestPermissionResponse:
        """Of what the program offers, the answer that holds for the shortest: the next time it asks again, and the
        rules decide then."""
        paths = [*(place.path for place in tool_call.locations or ()), *(diff.path for diff in _diffs(tool_call))]
        if len(paths) > MAX_PATHS:
            raise RequestError.invalid_params({"details": f"more than {MAX_PATHS} paths in one question"})
        wanted = permission(
            tool_call.kind or "other",
            tool_call.title or "",
            tool_call.raw_input,
            paths,
            "\n".join(f"{diff.path}:\n{diff.new_text}" for diff in _diffs(tool_call)),
        )
        asking = asyncio.ensure_future(self._answer(self._calls.ask(wanted, wanted.given)))
        self._asking[asking] = wanted
        try:
            await asyncio.wait([asking])
        finally:
            del self._asking[asking]
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)  # it takes back what it has asked people
        if asking.cancelled():
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        result = asking.result()
        if result.is_error:
            self._meter.explain(tool_call.tool_call_id, result.content[:MAX_REASONS_CHARS])
            self._refused.append(f"- {wanted.name} ({wanted.about}): {result.content}")
            self._progress = self._gone
        kinds = REJECTS if result.is_error else ALLOWS
        chosen = next((option for kind in kinds for option in options if option.kind == kind), None)
        if chosen is None:
            return schema.RequestPermissionResponse(outcome=schema.DeniedOutcome(outcome="cancelled"))
        outcome = schema.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **kwargs: Any
    ) -> schema.ReadTextFileResponse:
        given = {"path": _whole(path), "line": line, "limit": limit}
        return schema.ReadTextFileResponse(content=_done(await self._run(ReadText(), given)))

    async def write_text_file(
        self, session_id: str, path: str, content: str, **kwargs: Any
    ) -> schema.WriteTextFileResponse:
        _done(await self._run(WriteText(), {"path": _whole(path), "content": content}))
        return schema.WriteTextFileResponse()

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[schema.EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **kwargs: Any,
    ) -> schema.CreateTerminalResponse:
        """`command` alone is a line for a shell, with `args` one program."""
        limit = MAX_OUTPUT_BYTES if output_byte_limit is None else max(0, output_byte_limit)
        tool = RunCommand(partial(self._terminals.start, max_bytes=limit))
        given = {
            "command": command_line(command, args or ()),
            "workdir": absolute(cwd or self._folder),
            "env": {each.name: each.value for each in env or ()},
        }
        return schema.CreateTerminalResponse(terminal_id=_done(await self._run(tool, given)))

    async def terminal_output(self, session_id: str, terminal_id: str, **kwargs: Any) -> schema.TerminalOutputResponse:
        terminal = self._terminal(terminal_id)
        ended = schema.TerminalExitStatus(**_exit(terminal)) if terminal.ended.is_set() else None
        output, is_cut = terminal.look()
        return schema.TerminalOutputResponse(output=output, truncated=is_cut, exit_status=ended)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.WaitForTerminalExitResponse:
        terminal = self._terminal(terminal_id)
        await terminal.ended.wait()
        return schema.WaitForTerminalExitResponse(**_exit(terminal))

    async def kill_terminal(self, session_id: str, terminal_id: str, **kwargs: Any) -> schema.KillTerminalResponse:
        await self._answer(self._terminals.kill(terminal_id))
        return schema.KillTerminalResponse()

    async def release_terminal(
        self, session_id: str, terminal_id: str, **kwargs: Any
    ) -> schema.ReleaseTerminalResponse:
        await self._answer(self._terminals.release(terminal_id))
        return schema.ReleaseTerminalResponse()

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        raise RequestError.method_not_found("elicitation/create")  # nor is it among our capabilities

    async def complete_elicitation(self, elicitation_id: str, **kwargs: Any) -> None:
        return None

    def on_connect(self, conn: Any) -> None:
        return None

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        return None

    def _terminal(self, name: str) -> Terminal:
        try:
            return self._terminals.named(name)
        except ToolError as e:
            raise RequestError(NOT_DONE, str(e)) from e

    async def _run(self, tool: Tool, given: dict[str, Any]) -> ToolResult:
        return await self._answer(self._calls.run(tool, given))

    async def _answer(self, work: Awaitable[T]) -> T:
        try:
            return await work
        except ToolError as e:
            raise RequestError(NOT_DONE, str(e)) from e
        except RefusedByPerson as e:
            self._on_refusal(e)
            raise RequestError(NOT_DONE, "permission denied") from e
        except Exception as e:  # a sandbox that is gone, a store that does not answer: no answer to the program
            self._on_failure(e)
            raise RequestError(NOT_DONE, "the task has ended") from e


def capabilities(guard: Guard) -> schema.ClientCapabilities:
    """What the program may ask for at all."""
    return schema.ClientCapabilities(
        fs=schema.FileSystemCapabilities(
            read_text_file=not guard.hides("read"), write_text_file=not guard.hides("edit")
        ),
        terminal=not guard.hides("bash"),
    )


def _done(result: ToolResult) -> str:
    if result.is_error:
        raise RequestError(NOT_DONE, result.content)
    return result.content


def _whole(path: str) -> str:
    if not path.startswith("/"):
        raise RequestError.invalid_params({"details": "the path must be absolute"})
    return path


def _exit(terminal: Terminal) -> dict[str, Any]:
    return {"signal": "SIGKILL"} if terminal.exit_code is None else {"exit_code": terminal.exit_code}


def _diffs(tool_call: schema.ToolCallUpdate) -> list[schema.FileEditToolCallContent]:
    return [each for each in tool_call.content or () if isinstance(each, schema.FileEditToolCallContent)]
