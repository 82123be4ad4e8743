"""Hand work over. Each of these returns at once."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from envelope.budget import MICROUSD_PER_USD, Budget
from envelope.gate import GateRules
from envelope.ids import require_own_key
from envelope.messages import MAX_DEADLINE_MS
from transport.base import Handle

from ...fanout.items import MAX_ITEMS
from ...gathering import Policy, Want
from ...submit import BUILD
from ..tool import Call, Ground, Said, Wanted, WantedBatch

MINUTE_MS = 60_000
MAX_TEXT_CHARS = 200_000

Text = Annotated[str, Field(min_length=1, max_length=MAX_TEXT_CHARS)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]{1,100}$")]
Command = Annotated[str, Field(min_length=1, max_length=10_000)]
Key = Annotated[
    str,
    Field(
        max_length=150,
        description="The same work under the same key gives the first task back; other work under it is refused.",
    ),
    AfterValidator(require_own_key),
]
Money = Annotated[float | None, Field(ge=0, le=1_000_000, description="The most that all of it may cost, in dollars.")]
Minutes = Annotated[
    int | None, Field(ge=1, le=MAX_DEADLINE_MS // MINUTE_MS, description="When it is stopped, counted from now.")
]
Repository = Annotated[
    str,
    Field(
        max_length=4096,
        description="Where the code is: a folder of this machine if the server runs on it, else an https address."
        " Agents work on a copy of what is committed. Empty: no code.",
    ),
]
Base = Annotated[
    str,
    Field(max_length=200, description="The commit to start from. Needed with an address; of a folder: its HEAD."),
]
Setup = Annotated[
    tuple[Command, ...],
    Field(
        max_length=50, description="Commands that install the project's dependencies, such as pip install -e .[test]"
    ),
]

Model = Annotated[
    str, Field(max_length=200, description="Which model works, such as openai/gpt-5. Empty: the fleet's own.")
]
Dirty = Annotated[bool, Field(description="Work on the last commit though files of the folder have changed since.")]


class Goal(Said):
    goal: Annotated[Text, Field(description="What is to be done, in plain words, with all that an agent must know.")]
    repository: Repository = ""
    base: Base = ""
    allow_dirty: Dirty = False
    agent: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9_./-]{0,100}$",
            description="Who does it, such as build, or plan, which studies first and asks; see list_agents.",
        ),
    ] = ""
    setup: Setup = ()
    gate: Annotated[
        tuple[Command, ...],
        Field(max_length=50, description="The project's own test commands: the platform proves the change by them."),
    ] = ()
    budget_usd: Money = None
    deadline_minutes: Minutes = None
    model: Model = ""
    idempotency_key: Key = ""


class FanOut(Said):
    prompt: Annotated[Text, Field(description="{item} stands for the item, {name} for a field of it.")]
    items: Annotated[
        list[str | dict[str, Any]],
        Field(
            min_length=1,
            max_length=MAX_ITEMS,
            fail_fast=True,
            description="Texts such as paths, or objects whose fields are named.",
        ),
    ]
    agent: Annotated[Name, Field(description="explore reads only; general may do what its caller may.")] = "explore"
    repository: Repository = ""
    base: Base = ""
    allow_dirty: Dirty = False
    setup: Setup = ()
    gather: Annotated[
        Literal["all", "first", "best"], Field(description="Wait for all answers, for the first, or for the best.")
    ] = "all"
    max_running: Annotated[
        int | None, Field(ge=1, le=1000, description="How many at once; the fleet's own by default.")
    ] = None
    budget_usd: Money = None
    deadline_minutes: Minutes = None
    model: Model = ""


class BatchDocument(Said):
    document: Annotated[
        Text,
        Field(
            description="The batch file's text, or, if the server runs on this machine, the file's absolute path."
            " `muster schema batch` prints its form."
        ),
    ]
    language: Annotated[
        Literal["TOML", "YAML", "JSON"], Field(description="Of a text; a file's is told by its suffix.")
    ] = "TOML"
    allow_dirty: Dirty = False
    idempotency_key: Key = ""


class Started(BaseModel):
    """`existing`: this work was handed over before, and this is its task."""

    task_id: str
    trace_id: str
    existing: bool
    next: str
    notes: list[str] = []


async def submit_goal(call: Call, said: Goal) -> Started:
    """Give an agent of the fleet a goal in a repository. It works in a sandbox on a copy; nothing of yours changes.

    Returns a task_id at once; fetch the outcome with task_result, and the change with task_diff. With a gate the
    outcome says `verified` if the project's own tests passed in a fresh sandbox.
    """
    caller = call.caller
    ground = await call.reach.ground(caller, _wanted(said))
    known = ground.known
    agent = said.agent or known.get("agent") or caller.muster.settings.default_agent or BUILD
    request = await caller.muster.goal(
        said.goal,
        agent=agent,
        gate=said.gate or known.get("gate", ()),
        gate_rules=known.get("gate_rules", GateRules()),
        asks=ground.asks,
        idempotency_key=said.idempotency_key,
        sender=caller.name,
        tenant=caller.tenant,
        **_common(said, ground),
    )
    return _started(await caller.muster.submit(request), ground.notes)


async def fan_out(call: Call, said: FanOut) -> Started:
    """Ask one thing of many items at once, each a task of its own: for example a question about each file.

    Returns a task_id at once; the answers meet in its task_result. The same again does only what did not complete.
    """
    caller = call.caller
    ground = await call.reach.ground(caller, _wanted(said))
    request = await caller.muster.fanout(
        said.agent,
        said.prompt,
        said.items,
        want=Want(Policy(said.gather)),
        max_running=said.max_running,
        asks=ground.asks,
        sender=caller.name,
        tenant=caller.tenant,
        **_common(said, ground),
    )
    return _started(await caller.muster.submit_repeatable(request), ground.notes)


async def submit_batch(call: Call, said: BatchDocument) -> Started:
    """Run a batch: one change over many files or repositories, in shards, merged and proved by their tests.

    Returns a task_id at once; follow it with batch_status, and read batch_report when it has ended. The same document
    on the same commits is the same batch: what was done is not done again.
    """
    caller = call.caller
    plan, asks = await call.reach.batch(caller, WantedBatch(said.document, said.language, said.allow_dirty))
    await plan.preview(caller.muster.settings)  # what a run would be refused for is said now
    handle = await caller.muster.batches.submit(
        plan, sender=caller.name, tenant=caller.tenant, asks=asks, idempotency_key=said.idempotency_key
    )
    return _started(handle, (), "batch_status, and in the end batch_report")


def _wanted(said: Goal | FanOut) -> Wanted:
    return Wanted(said.repository, said.base, said.setup, said.allow_dirty)


def _common(said: Goal | FanOut, ground: Ground) -> dict[str, Any]:
    """What the caller leaves open, the repository's settings say, as far as its user trusts them."""
    cost = None if said.budget_usd is None else round(said.budget_usd * MICROUSD_PER_USD)
    cost = ground.known.get("budget_microusd") if cost is None else cost
    deadline_ms = said.deadline_minutes * MINUTE_MS if said.deadline_minutes else ground.known.get("deadline_ms")
    return {
        "workspace": ground.workspace,
        "budget": None if cost is None else Budget(max_cost_microusd=cost),
        "deadline_ms": deadline_ms,
        "model": said.model or ground.known.get("model", ""),
    }


def _started(handle: Handle, notes: tuple[str, ...], then: str = "task_result with wait_s, or task_status") -> Started:
    return Started(
        task_id=handle.task_id,
        trace_id=handle.trace_id,
        existing=handle.existing,
        next=f"call {then}, with this task_id",
        notes=list(notes),
    )
