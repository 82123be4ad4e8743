"""The agent's list: what a write replaces, what is refused, and that it is still there in another process."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import pytest

from envelope.budget import Budget, Usage
from envelope.events import Event, Todo, TodoUpdated
from envelope.messages import TaskInput, TaskProgress, TaskResult
from sandbox.base import Sandbox
from workers.agent.calls import Answered
from workers.agent.history import open_session, reopen_session, with_answers, with_open_turn, with_reply
from workers.agent.session import Session
from workers.agent.todos import todos_of
from workers.agents.registry import builtin
from workers.llm.base import Completed, ToolCall
from workers.permissions.guard import Guard
from workers.permissions.rules import DEFAULTS, parse_rules
from workers.tools.base import ChildRequest, Delegated, ToolContext, ToolResult
from workers.tools.dispatch import run_calls
from workers.tools.registry import all_tools

OPEN = Guard(("*:**",), DEFAULTS)
TOOLS = all_tools()


class Nobody:
    async def start(self, request: ChildRequest) -> str:
        raise AssertionError("no subagents here")

    async def sent_to_background(self, task_ids: Sequence[str]) -> Sequence[str]:
        raise AssertionError("no subagents here")

    async def ended(self, task_ids: Sequence[str]) -> Mapping[str, TaskResult]:
        raise AssertionError("no subagents here")

    async def tell(self, session: str, text: str) -> bool:
        raise AssertionError("no subagents here")

    async def ended_by_now(self, task_ids: Sequence[str]) -> Mapping[str, TaskResult]:
        raise AssertionError("no subagents here")

    def catalogue(self) -> Mapping[str, str]:
        return {}


async def no_sandbox() -> Sandbox:
    raise AssertionError("a list needs no sandbox")


@pytest.fixture
def events() -> list[Event]:
    return []


@pytest.fixture
def desk(events: list[Event]) -> ToolContext:
    return ToolContext(no_sandbox, Nobody(), {}, emit=events.append)


def item(content: str, status: str = "pending", **more: str) -> dict[str, str]:
    return {"content": content, "status": status, **more}


def write(*items: object, name: str = "todowrite", call_id: str = "c") -> ToolCall:
    arguments = {"todos": [*items]}
    return ToolCall(id=call_id, name=name, arguments=json.dumps(arguments), input=arguments)


READ = ToolCall(id="r", name="todoread", arguments="{}", input={})


async def run(desk: ToolContext, *calls: ToolCall, guard: Guard = OPEN) -> list[ToolResult]:
    results = await run_calls(calls, TOOLS, desk, guard, lambda _: None)
    assert all(isinstance(result, ToolResult) for result in results)
    return results  # pyright: ignore[reportReturnType]


async def test_a_write_replaces_the_whole_list(desk: ToolContext):
    await run(desk, write(item("a"), item("b", "in_progress", priority="high")))

    [written] = await run(desk, write(item("b", "completed", priority="high"), item("c")))
    [read] = await run(desk, READ)

    assert written.content == read.content == "1. [completed] b (high)\n2. [pending] c (medium)"
    assert written.title == read.title == "1 of 2 todos open"
    assert not written.is_error and not read.is_error


async def test_people_see_every_new_list(desk: ToolContext, events: list[Event]):
    await run(desk, write(item("a")))
    await run(desk, write())

    assert events == [TodoUpdated(todos=(Todo(content="a"),)), TodoUpdated(todos=())]


@pytest.mark.parametrize(
    ("items", "title"),
    [
        ([], "no todos"),
        ([item("a")], "1 of 1 todos open"),
        ([item("a", "completed"), item("b", "cancelled"), item("c", "in_progress")], "1 of 3 todos open"),
    ],
)
async def test_the_title_says_how_much_is_left(desk: ToolContext, items: list[dict[str, str]], title: str):
    assert [result.title for result in await run(desk, write(*items))] == [title]


async def test_a_list_that_was_never_written_is_empty(desk: ToolContext):
    assert [result.content for result in await run(desk, READ)] == ["The list is empty."]


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (
            [item("a", "done")],
            "todos.0.status: 'done' is not one of ['pending', 'in_progress', 'completed',",
        ),
        ([item("a", priority="urgent")], "todos.0.priority: 'urgent' is not one of ['high', 'medium', 'low']"),
        ([item("a"), {"content": "b"}], "todos.1: 'status' is a required property"),
        ([{"status": "pending"}], "'content' is a required property"),
        (["a"], "todos.0: 'a' is not of type 'object'"),
        ([item("a"), item(" \n")], "item 2 has no text"),
        ([item("a" * 1_001)], "item 1 has 1001 characters; say it in 1000"),
        ([item("a")] * 101, "it has 101 items; keep to 100"),
    ],
)
async def test_a_wrong_list_is_refused_and_the_old_one_stays(
    desk: ToolContext, events: list[Event], items: list[object], words: str
):
    await run(desk, write(item("old")))

    [refused] = await run(desk, write(*items))

    assert refused.is_error and words in refused.content
    assert (desk.todos, len(events)) == ((Todo(content="old"),), 1)


async def test_an_item_is_one_line_and_unknown_keys_are_let_pass(desk: ToolContext):
    [written] = await run(desk, write(item(" a\n2. [completed] b ", id="7", activeForm="Doing a")))

    assert written.content == "1. [pending] a 2. [completed] b (medium)"


async def test_rules_and_scope_hold_for_the_list_too(desk: ToolContext):
    denied = Guard(("*:**",), (*DEFAULTS, *parse_rules({"todowrite": "deny"})))
    [refused] = await run(desk, write(item("a")), guard=denied)
    [out_of_scope] = await run(desk, write(item("a")), guard=Guard(("read:**",), DEFAULTS))

    assert refused.is_error and out_of_scope.is_error and desk.todos == ()
    assert denied.hides("todowrite") and not denied.hides("todoread")


def opened() -> Session:
    return open_session(builtin()["build"], model="m", system="You are.", prompt="Do it.", budget=Budget())


def asked(session: Session, *calls: ToolCall) -> Session:
    reply = Completed(text="", reasoning="", tool_calls=calls, finish_reason="tool_calls", usage=Usage())
    return with_reply(session, reply, keep_calls=True)


def turn(session: Session, *answers: tuple[ToolCall, bool]) -> Session:
    """A turn of calls, each of which succeeded or not."""
    done = [Answered(call, ToolResult("…", is_error=not good)) for call, good in answers]
    return with_answers(asked(session, *(call for call, _ in answers)), done, {})


def contents(session: Session) -> list[str]:
    return [todo.content for todo in todos_of(Session.load(session.dump()))]


def test_the_list_is_found_again_in_a_stored_session():
    first = turn(opened(), (write(item("a")), True))
    second = turn(first, (write(item("b")), True), (write(item("c"), name="TodoWrite"), True))
    refused = turn(second, (write(item("d")), False), (READ, True))
    reopened = reopen_session(refused, builtin()["build"], model="m", prompt="More.", budget=Budget())

    assert contents(opened()) == []
    assert [contents(session) for session in (first, second, refused, reopened)] == [["a"], ["c"], ["c"], ["c"]]


def test_calls_with_the_same_id_are_not_mixed_up():
    bad = ToolCall(id="c", name="todowrite", arguments="[]", input={"todo": 1})
    lookup = ToolCall(id="c", name="read", arguments="{}", input={})

    assert contents(turn(turn(opened(), (write(item("a")), True)), (lookup, True), (bad, False))) == ["a"]


def test_a_list_written_in_a_turn_that_still_waits_counts():
    child = ToolCall(id="t", name="task", arguments="{}", input={})
    answers = [Answered(write(item("a")), ToolResult("…")), Answered(child, Delegated("child"))]

    assert contents(with_open_turn(asked(opened(), write(item("a")), child), answers, {})) == ["a"]


SCRIPT = """
rules:
  - when: {prompt_contains: begin, turn: 1}
    reply: {tool_calls: [{name: todowrite, arguments: {todos: [{content: mend it, status: in_progress}]}}]}
  - {when: {user_contains: go on, turn: 3}, reply: {tool_calls: [{name: todoread, arguments: {}}]}}
  - {when: {turn: 2}, reply: {text: Begun.}}
  - {reply: {text: "${result.1}"}}
"""


@pytest.mark.redis
@pytest.mark.docker
async def test_a_task_that_goes_on_with_a_session_finds_its_list(start_agents):
    hands, _ = await start_agents(SCRIPT)

    def ask(prompt: str, **fields):
        scope = ("read:**", "todowrite:**", "todoread:**")
        return hands.request(agent="build", auth_scope=scope, input=TaskInput(prompt=prompt), **fields)

    first = await hands.result(begun := ask("begin"))
    second = await hands.result(ask("go on", resume_token=first.resume_token))

    assert second.output.text == "1. [in_progress] mend it (medium)"
    seen = [
        event
        async for entry in hands.transport.follow(begun.trace_id)
        if isinstance(entry.message, TaskProgress)
        for event in entry.message.events
        if event.kind == "todo"
    ]
    assert seen == [TodoUpdated(todos=(Todo(content="mend it", status="in_progress"),))]
