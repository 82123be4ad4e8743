"""Running a recorded task again: code and agents of today, the world of then. No model, no sandbox, no network."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

from pydantic import TypeAdapter

from envelope.codec import decode_request
from envelope.ids import new_task_id, new_trace_id
from envelope.messages import TaskRequest
from envelope.redaction import redact
from sandbox.base import Sandbox
from transport.base import Claim
from transport.blobs.base import Blobs
from transport.errors import NotFound
from transport.memory import MemoryTransport
from transport.outbox import Outbox
from transport.rates import Quota

from ..agent_task.task import AgentTasks
from ..agents.base import Agent
from ..delivery.attempt import Attempt
from ..delivery.reporter import Reporter
from ..delivery.results import TaskOutcome
from ..equipment import plain_equipment
from ..errors import BadInput
from ..kit import Kit
from ..llm.cassette import Call, Entry, Kept
from ..llm.limited import Limiter
from ..models import Models
from ..sandboxes.of_task import NOTHING, TaskSandbox
from ..sandboxes.workspace import Prepared
from ..sessions.checkpoints import Checkpoints
from ..subagents.inheritance import guard_of
from ..web.access import WebAccess
from .player import Difference, NotRecorded, Player, ToldNo
from .reading import entries_of, readable
from .recorder import AGENT, AGENTS, CASSETTE, EARLIER, REQUEST, whole

UNASKED = "not/asked"  # the model of a task that ended before it asked one
DEADLINE_MS = 3_600_000  # a replay takes seconds; the recorded deadline may have been short


EARLIER_REF: TypeAdapter[str | None] = TypeAdapter(str | None)


@dataclass(frozen=True, slots=True)
class Replayed:
    """How far it went, and where it went another way. `is_whole`: the recording holds the task's end."""

    calls: int
    answers: int
    difference: Difference | None = None
    is_whole: bool = True


async def find_cassette(blobs: Blobs, attachments: Mapping[str, str], checkpoint: str | None) -> tuple[Entry, ...]:
    """The one that a result names; of a task that was stopped, what it had stored. `BadInput` when there is none."""
    if CASSETTE in attachments:
        return tuple(entries_of(await blobs.get(attachments[CASSETTE])))
    newest = (await Checkpoints(blobs).load(checkpoint)).cassette if checkpoint else None
    if newest is None:
        raise BadInput("the task was not recorded", hint="record the next one: muster run --record …")
    return tuple(entries_of((await whole(blobs, newest)).encode()))


async def replay(entries: Sequence[Entry], blobs: Blobs, agents: Mapping[str, Agent]) -> Replayed:
    """`agents` are those of today; one that is not among them is taken from the recording. `BadInput` for a recording
    that is none."""
    with readable():
        found = {entry.name: entry.value for entry in entries if isinstance(entry, Kept)}
        recorded = AGENTS.validate_python(found[AGENT])
        agents = {recorded.name: recorded, **agents}
        request = _again(TaskRequest.model_validate(found[REQUEST]))
        agent, player = agents[request.agent], Player(entries)
        earlier = EARLIER_REF.validate_python(found[EARLIER])
    transport = MemoryTransport(pools=[request.recipient])
    claim = await _claimed(transport, request, await _earlier(blobs, transport.blobs, earlier))
    models = Models(default=next((entry.model for entry in entries if isinstance(entry, Call)), UNASKED))
    async with Reporter(transport, claim.lease) as reporter:
        guard = guard_of(request, agent)
        attempt = Attempt(
            claim, decode_request(claim.envelope, keyring=transport.keyring), agent, guard, NoSandbox(), reporter
        )
        limiter = Limiter(transport.rates, Unwatched(), Quota())
        outbox, equipment = Outbox(transport), plain_equipment()
        tasks = AgentTasks(Kit(transport, outbox, models, agents, equipment, limiter, 0, WebAccess()))
        try:
            outcome = await tasks.run_on(player, attempt)
            assert isinstance(outcome, TaskOutcome), "a replay waits for nobody"
            player.check_end(redact(outcome.output.text), str(outcome.errors[0].code) if outcome.errors else "")
        except Difference as difference:
            return Replayed(player.calls, player.answered, difference)
        except ToldNo:
            pass
        except NotRecorded:
            return Replayed(player.calls, player.answered, is_whole=False)
    return Replayed(player.calls, player.answered)


class Unwatched:
    """A replay asks no provider, so nothing is limited or counted."""

    def waited(self, model: str, seconds: float, per_minute: float) -> None: ...
    def refused(self, model: str) -> None: ...
    def tried(self, model: str, code: str, seconds: float, trace_id: str) -> None: ...


class NoSandbox(TaskSandbox):
    """In place of a sandbox: a replay has none, and needs none while it goes as recorded."""

    def __init__(self) -> None:
        self.earlier_work_diff = b""
        self.furnished = NOTHING
        self.permit = nullcontext

    async def prepared(self) -> Prepared:
        raise Difference(0, "it needs a workspace, which it did not then")

    async def opened(self) -> Sandbox:
        raise Difference(0, "it needs a sandbox, which it did not then")


def _again(request: TaskRequest) -> TaskRequest:
    """The request as a task of its own, of today."""
    new = {
        "task_id": new_task_id(),
        "trace_id": new_trace_id(),
        "parent_task_id": None,
        "resume_token": "",
        "deadline_ms": DEADLINE_MS,
        "created_at_ms": time.time_ns() // 1_000_000,
    }
    return request.model_copy(update=new)


async def _claimed(transport: MemoryTransport, request: TaskRequest, session: str | None) -> Claim:
    await transport.submit([request])
    [claim] = await transport.claim(request.recipient, "replay", slots=1, wait_s=0)
    return replace(claim, session=session)


async def _earlier(blobs: Blobs, own: Blobs, ref: str | None) -> str | None:
    """The session that the task went on with, without its work: no tool will look at it."""
    if ref is None:
        return None
    try:
        session = await Checkpoints(blobs).load(ref)
    except NotFound as e:
        raise BadInput("the session that the task went on with is no longer kept") from e
    return await Checkpoints(own).save(session.model_copy(update={"changes": None}))
