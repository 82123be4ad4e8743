"""Subagents that people send to the background while their caller waits: its call returns, and nothing is lost."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from envelope.agents import WorkerCard
from envelope.lifecycle import State
from envelope.messages import Output, TaskInput, TaskProgress, TaskRequest, TaskResult
from orchestrator.client import Muster
from orchestrator.errors import BadInput
from orchestrator.looking import WouldWrite
from orchestrator.settings import Settings
from workers.llm.scripted_server import ScriptedServer
from workers.tools.background import RUNS, TOLD

pytestmark = [pytest.mark.redis, pytest.mark.docker]

# In a pool that no worker serves: it is at work for as long as a test wants.
POOL = "slow"
AGENTS = {"helper": f"---\ndescription: helps\nmode: subagent\npool: {POOL}\n---\nYou help."}
CALL = "{name: task, arguments: {description: find it, prompt: look, subagent_type: helper}}"
SCRIPT = f"""
rules:
  - when: {{prompt_contains: lead, turn: 1}}
    reply: {{tool_calls: [{CALL}]}}
  - {{when: {{user_contains: I looked}}, reply: {{text: "heard | ${{result.0}}"}}}}
  - {{when: {{prompt_contains: lead, turn: 2}}, reply: {{text: "at once | ${{result.0}}"}}}}
  - {{when: {{prompt_contains: lead}}, reply: {{text: "I wait."}}}}
"""


@dataclass
class Stage:
    """A caller that has started a subagent. `again` starts another worker with the same model."""

    hands: Any
    server: ScriptedServer
    muster: Muster
    request: TaskRequest
    child: str
    again: Callable[[], Awaitable[object]]

    async def parked(self, *, after: str = "0") -> str:
        def waits(progress: TaskProgress) -> bool:
            return progress.task_id == self.request.task_id and progress.status is State.WAITING

        return await self.hands.until(self.request.trace_id, waits, after=after)

    async def end_child(self, child: str = "", text: str = "I looked.") -> None:
        for claim in await self.hands.transport.claim(POOL, "test", slots=9, wait_s=5):
            lease = claim.lease
            if lease.task_id != (child or self.child):
                await self.hands.transport.give_back(lease)
                continue
            about = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
            result = TaskResult(**about, status=State.COMPLETED, output=Output(text=text))
            await self.hands.transport.finish(lease, result)

    async def result(self) -> TaskResult:
        return await self.hands.ended(self.request.task_id)

    def told(self) -> list[str]:
        """What the caller's model was shown after its prompt, at last; of calls their answers."""
        return [message["content"] for message in self.server.log.bodies[-1]["messages"][2:] if message["content"]]

    @property
    def running(self) -> str:
        return f'<task id="{self.child}" state="running">\n{RUNS}\n</task>'


def tells(kind: str) -> Callable[[TaskProgress], bool]:
    return lambda progress: any(event.kind == kind for event in progress.events)


@pytest.fixture
def begin(start_agents, transport, tmp_path):
    async def begin(script: str = SCRIPT, **settings) -> Stage:
        await transport.announce(WorkerCard(worker="test", pool=POOL, slots=1), ttl_s=600)
        hands, server = await start_agents(script, agents=AGENTS, **settings)
        muster = Muster(hands.transport, Settings(state_dir=tmp_path))
        request = hands.request(agent="build", auth_scope=("task:**", "bash:**"), input=TaskInput(prompt="lead"))
        await hands.transport.submit([request])
        await hands.until(request.trace_id, tells("child_spawned"))
        child, *_ = [task for task in await muster.tasks(trace_id=request.trace_id) if task.parent_task_id]
        again = partial(start_agents, "rules: []", agents=AGENTS, model_base_url=server.base_url)
        return Stage(hands, server, muster, request, child.task_id, again)

    return begin


async def test_the_call_of_a_parked_caller_returns_and_it_hears_of_the_end_once(begin):
    stage = await begin()
    waits = await stage.parked()

    await stage.muster.background(stage.child)

    await stage.parked(after=waits)  # it has had its turn, and waits as for any subagent in the background
    await stage.muster.background(stage.child)  # said twice
    assert (await stage.hands.transport.record(stage.request.task_id)).waits_for == (stage.child,)
    await stage.end_child()
    result = await stage.result()
    assert (result.status, result.output.text) == (State.COMPLETED, f"heard | {stage.running}")
    answer, said, word = stage.told()
    assert (answer, said) == (stage.running, f"at once | {stage.running}")
    assert word.startswith(f'{TOLD}\n<task id="{stage.child}" agent="helper" state="completed">\nI looked.')
    calls = await stage.hands.events(stage.request.trace_id, "tool_call", task_id=stage.request.task_id)
    assert [call.state for call in calls] == ["pending", "running", "completed"]


async def test_a_caller_that_still_has_its_slot_does_not_park(begin):
    stage = await begin(park_after_s=600)  # it would wait so long before

    await stage.muster.background(stage.child)
    await stage.hands.stop()  # and its worker goes: another one takes its turn

    begun = await stage.hands.transport.record(stage.request.task_id)
    assert (begun.state, begun.background) == (State.PENDING, (stage.child,))
    await stage.again()
    await stage.parked()
    await stage.end_child()
    assert (await stage.result()).output.text == f"heard | {stage.running}"


async def test_a_subagent_that_has_ended_meanwhile_answers_its_call_once(begin):
    stage = await begin()
    await stage.parked()
    await stage.hands.stop()  # nobody is there to go on with it

    await stage.muster.background(stage.child)
    await stage.end_child()
    await stage.again()

    result = await stage.result()
    assert result.status is State.COMPLETED and result.output.text.startswith("at once | <task id=")
    [answer] = stage.told()
    assert 'state="completed">\nI looked.' in answer
    assert len(await stage.hands.events(stage.request.trace_id, "child_ended")) == 1


TWO = SCRIPT.replace(f"[{CALL}]", f"[{CALL}, {CALL.replace('prompt: look', 'prompt: look too')}]")


async def test_a_turn_with_another_call_goes_on_when_that_one_has_its_answer(begin):
    stage = await begin(TWO)
    await stage.parked()
    tasks = await stage.muster.tasks(trace_id=stage.request.trace_id)
    [other] = [task.task_id for task in tasks if task.parent_task_id and task.task_id != stage.child]

    await stage.muster.background(stage.child)

    assert (await stage.muster.record(stage.request.task_id)).waits_for == (other,)
    await stage.end_child(other, "The other has answered.")
    await stage.hands.until(stage.request.trace_id, tells("text"))
    await stage.end_child()
    assert (await stage.result()).status is State.COMPLETED
    *answers, said, word = stage.told()
    assert sorted("The other has answered." in answer for answer in answers) == [False, True]
    assert stage.running in answers
    assert said.startswith("at once") and word.startswith(f'{TOLD}\n<task id="{stage.child}"')


BACKGROUND = SCRIPT.replace("prompt: look,", "prompt: look, background: true,")


async def test_what_nobody_waits_for_is_refused_with_what_to_look_at(begin, tmp_path):
    stage = await begin(BACKGROUND)
    refused = f"nobody waits for the subagent {stage.child}"
    with pytest.raises(BadInput, match=refused):
        await stage.muster.background(stage.child)  # its caller is at work
    await stage.parked()
    with pytest.raises(BadInput, match=refused) as parked:
        await stage.muster.background(stage.child)
    with pytest.raises(BadInput, match=f"the task {stage.request.task_id} is no subagent"):
        await stage.muster.background(stage.request.task_id)
    with pytest.raises(WouldWrite):
        await stage.muster.read_only().background(stage.child)
    await stage.end_child()
    await stage.result()
    with pytest.raises(BadInput, match="has ended already: completed"):
        await stage.muster.background(stage.child)

    assert parked.value.hint.endswith(f"muster task show {stage.request.task_id}")
