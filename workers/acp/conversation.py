"""A program's session from its first word to its last: the protocol's steps, by the official library."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from acp import PROTOCOL_VERSION, RequestError, schema, text_block
from acp.client import ClientSideConnection
from pydantic import ValidationError

from envelope.errors import ErrorCode
from sandbox.base import Sandbox, Service
from sandbox.errors import SandboxLost

from ..agent.session import PROMPT_IT, Outcome
from ..delivery.failures import OF_MODELS
from ..errors import BadInput
from ..permissions.guard import Guard
from ..project.framing import shortened
from .client import EngineClient, capabilities
from .ending import Ending, EngineFailed
from .lines import Json, Lines
from .meter import Meter
from .program import last_words
from .told import Told

# A large program on a busy machine; one that has not said its name by then never will.
START_TIMEOUT_S = 120.0
# Without a word, a model call, a tool call or a question under way: nobody works so.
SILENCE_S = 300.0
LOOK_S = 1.0
WANTS_SIGN_IN = -32000
MAX_MODES_CHARS = 400  # their names are the program's
# So often a program is asked to go on after what it was refused; a model that tries the same again does so for ever.
MAX_AGAIN = 3
GO_ON = """\
This was not allowed, and you stopped there:
{refused}

It is no end of your task. Go on without it: another way, or with the rest. Do not try the same again. If nothing is
left that you can do, say what is missing, and why."""
REFUSED_HINT = f"allow it in the agent's `permission`, or have people answer; then go on with: {PROMPT_IT}"
# How a turn may end beside well.
STOPS = {
    "max_tokens": (ErrorCode.MODEL_FAILED, "the reply was cut off at the model's output limit"),
    "max_turn_requests": (ErrorCode.TURN_LIMIT, "the agent's program has made as many model calls as it allows itself"),
    "refusal": (ErrorCode.MODEL_FAILED, "the agent refuses to go on with this prompt"),
    "cancelled": (ErrorCode.ENGINE, "the agent's program has cancelled its turn by itself"),
}


@dataclass(slots=True)
class Conversation:
    """`is_at_work`: does anything go on that the program waits for?"""

    sandbox: Sandbox
    service: Service
    client: EngineClient
    told: Told
    meter: Meter
    ending: Ending
    is_at_work: Callable[[], bool]

    async def run(
        self,
        prompts: Sequence[str],
        hear: Callable[[], Awaitable[Sequence[str]]],
        *,
        folder: str,
        mode: str,
        guard: Guard,
    ) -> Outcome:
        """Its outcome, after all that people have said to it meanwhile. `BadInput` for a program that cannot be led,
        `EngineFailed` for one that breaks off."""
        lines = Lines(self.service, _is_usable)
        connection: Any = ClientSideConnection(lambda agent: self.client, lines)  # its methods are made from schemas
        try:
            if (ended := await self._open(connection, lines, folder, mode, guard)) is not None:
                return ended
            again = 0
            while True:
                outcome = await self._prompt(connection, lines, prompts)
                was_cancelled = outcome.error is ErrorCode.ENGINE
                refused = self.client.refusals(was_cancelled=was_cancelled)
                if outcome.error is not None and not (was_cancelled and refused):
                    return outcome
                heard = await hear()
                if refused and again == MAX_AGAIN and not heard:
                    return Outcome(text=outcome.text, error=ErrorCode.REFUSED, detail=_why(refused), hint=REFUSED_HINT)
                if not refused and not heard:
                    return outcome
                prompts = heard
                if refused:
                    again += 1
                    self.told.prompted(said := GO_ON.format(refused=refused))
                    prompts = [said, *heard]
        finally:
            await connection.close()

    async def _open(self, connection: Any, lines: Lines, folder: str, mode: str, guard: Guard) -> Outcome | None:
        """The task's outcome, if that is there before the session: the program may ask its model at once."""
        try:
            async with asyncio.timeout(START_TIMEOUT_S):
                begun = await self._said(
                    connection.initialize(
                        protocol_version=PROTOCOL_VERSION,
                        client_capabilities=capabilities(guard),
                        client_info=schema.Implementation(name="muster", version="1"),
                    ),
                    lines,
                )
                if isinstance(begun, Outcome):
                    return begun
                if begun.protocol_version != PROTOCOL_VERSION:
                    raise BadInput(f"the agent's program speaks version {begun.protocol_version} of the protocol")
                opened = await self._said(connection.new_session(cwd=folder, mcp_servers=[]), lines)
                if isinstance(opened, Outcome):
                    return opened
                self.client.session_id = opened.session_id
                await self._choose(connection, lines, opened, mode)
                return None
        except TimeoutError as e:
            raise await self._bad_start(f"was not ready within {START_TIMEOUT_S:.0f} s") from e
        except ConnectionError as e:
            raise await self._bad_start(lines.fault or "ended before it was ready") from e
        except (RequestError, ValidationError) as e:
            if isinstance(e, RequestError) and e.code == WANTS_SIGN_IN:
                hint = "no account enters a sandbox: have it ask the relay (`env:` in its file)"
                raise BadInput("the agent's program wants to be signed in", hint=hint) from e
            raise await self._bad_start(f"does not begin a session: {_words(e)}") from e

    async def _choose(self, connection: Any, lines: Lines, opened: schema.NewSessionResponse, mode: str) -> None:
        """Programs offer their modes as such, or as one of the options of a session."""
        if not mode:
            return
        known = [each.id for each in opened.modes.available_modes] if opened.modes else []
        options = {value: option.id for option in opened.config_options or () for value in _modes_in(option)}
        if mode in known:
            asked = connection.set_session_mode(mode_id=mode, session_id=opened.session_id)
        elif mode in options:
            asked = connection.set_config_option(config_id=options[mode], session_id=opened.session_id, value=mode)
        else:
            there_are = shortened(", ".join([*known, *options]), MAX_MODES_CHARS) or "none"
            raise BadInput(f"the agent's program has no mode {mode!r}", hint=f"it has: {there_are}")
        await self._said(asked, lines)

    async def _prompt(self, connection: Any, lines: Lines, prompts: Sequence[str]) -> Outcome:
        self.told.begin()
        blocks = [text_block(prompt) for prompt in prompts]
        try:
            asked = connection.prompt(session_id=self.client.session_id, prompt=blocks)
            answer = await self._said(asked, lines, patience_s=SILENCE_S)
        except (ConnectionError, RequestError, ValidationError) as e:
            if self.meter.failed is not None:
                return self._model_failed()
            raise await self._broken(e, lines) from e
        if isinstance(answer, Outcome):
            return answer.model_copy(update={"text": self.told.text})
        if self.meter.failed is not None:  # its last word is no answer: it had none of the model's
            return self._model_failed()
        if answer.stop_reason in STOPS:
            code, words = STOPS[answer.stop_reason]
            return Outcome(text=self.told.text, error=code, detail=words)
        return Outcome(text=self.told.text)

    async def _said(self, asked: Awaitable[Any], lines: Lines, *, patience_s: float | None = None) -> Any:
        """The answer, or the outcome if that is there before. Raises what ends the attempt."""
        asking = asyncio.ensure_future(asked)
        clock = asyncio.get_running_loop().time
        heard_s = clock()
        try:
            while True:
                done, _ = await asyncio.wait(
                    [asking, self.ending.said], timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED
                )
                if self.ending.said in done:
                    return self.ending.said.result()
                if asking in done:
                    return asking.result()
                if lines.heard.is_set() or self.is_at_work():
                    lines.heard.clear()
                    heard_s = clock()
                elif patience_s is not None and clock() - heard_s > patience_s:
                    words = f"the agent's program has said nothing for {patience_s:.0f} s, and waits for nothing"
                    raise EngineFailed(words, hint=await self._hint())
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    def _model_failed(self) -> Outcome:
        failed = self.meter.failed
        assert failed is not None  # asked by those who have looked
        code, hint = OF_MODELS[failed.failure]
        return Outcome(text=self.told.text, error=code, detail=failed.message, hint=hint)

    async def _broken(self, error: Exception, lines: Lines) -> Exception:
        if isinstance(error, ConnectionError):
            await self.sandbox.stat("/")  # a sandbox that is gone is the cause, and raises that
            return EngineFailed(
                f"the agent's program broke off: {lines.fault or 'it has ended'}", hint=await self._hint()
            )
        return EngineFailed(f"the agent's program failed: {_words(error)}", hint=await self._hint())

    async def _bad_start(self, why: str) -> Exception:
        try:
            await self.sandbox.stat("/")
        except SandboxLost as lost:
            return lost
        return BadInput(f"the agent's program {why}", hint=await self._hint("is it in the sandbox's image? "))

    async def _hint(self, before: str = "") -> str:
        words = await last_words(self.sandbox)
        return before + (f"its last words on standard error: {words}" if words else "it has complained of nothing")


def _why(refused: str) -> str:
    first = refused.splitlines()[0].removeprefix("- ")
    return f"the agent's program stopped at what it was refused: {shortened(first, MAX_MODES_CHARS)}"


def _is_usable(message: Json) -> bool:
    """What is told without being asked: the library logs a stranger's every mistake at length."""
    if message.get("method") != "session/update":
        return str(message.get("method")).startswith("_")
    try:
        schema.SessionNotification.model_validate(message.get("params"))
    except ValidationError:
        return False
    return True


def _modes_in(option: schema.SessionConfigOptionSelect | schema.SessionConfigOptionBoolean) -> list[str]:
    if not isinstance(option, schema.SessionConfigOptionSelect) or option.category != "mode":
        return []
    return [each.value for each in option.options if isinstance(each, schema.SessionConfigSelectOption)]


def _words(error: Exception) -> str:
    if isinstance(error, RequestError):
        data = cast(Json, error.data) if isinstance(cast(object, error.data), dict) else Json()
        return f"{error} {data.get('details') or ''}".strip()[:400]
    return "its answer is not in the protocol's form"
