"""What a request refers to, read by a real agent: scripted model over HTTP, real Redis, Docker and git."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from envelope.errors import ErrorCode
from envelope.ids import new_task_id
from envelope.lifecycle import State
from envelope.messages import ContextRef, TaskInput, Workspace

pytestmark = [pytest.mark.redis, pytest.mark.docker]

READ_SCOPE = ("read:**", "edit:src/**", "bash:**")


def reads(*names: str) -> str:
    """A model that reads references, each in a turn of its own, and says what came."""
    turns = [f'  - {{when: {{turn: {n}}}, reply: {{tool_calls: [{{name: read, arguments: {{ref: "{name}"}}}}]}}}}'
             for n, name in enumerate(names, 1)]  # fmt: skip
    said = " ## ".join(f"${{result.{n}}}" for n in range(len(names)))
    return "\n".join(["rules:", *turns, f'  - reply: {{text: "{said}"}}'])


@pytest.fixture
def reader(start_agents, workspace: Workspace) -> Callable:
    """`await reader(names, refs, …)`: what reading these gave, one by one; the result; the model's server."""

    async def run(names: list[str], refs: list[ContextRef], **fields):
        hands, server = await start_agents(reads(*names))
        told = {"agent": "build", "workspace": workspace, "input": TaskInput(prompt="look"), "auth_scope": READ_SCOPE}
        result = await hands.result(hands.request(**{**told, "context_refs": tuple(refs), **fields}))
        return result.output.text.split(" ## "), result, server

    return run


def ref(type: str, id: str, range: tuple[int, int] | None = None) -> ContextRef:
    return ContextRef.model_validate({"type": type, "id": id, "range": range})


async def test_references_are_listed_in_the_prompt_and_only_read_takes_them(reader):
    _, _, server = await reader(["file:src/greet.py"], [ref("file", "src/greet.py", (1, 2)), ref("symbol", "greet")])

    sent = server.log.bodies[0]
    assert sent["messages"][1]["content"].endswith("- file:src/greet.py#1-2\n- symbol:greet")
    assert [tool["function"]["name"] for tool in sent["tools"] if "'ref'" in str(tool)] == ["read"]


async def test_a_file_comes_as_it_was_at_the_base_in_its_range(reader, transport, workspace: Workspace):
    diff = b"--- a/src/other.py\n+++ b/src/other.py\n@@ -1 +1,2 @@\n X = 1\n+Y = 2\n"
    changed = workspace.model_copy(update={"changes": await transport.blobs.put(diff)})

    [part, changes], _, _ = await reader(
        ["file:src/greet.py#2-2", "file:src/other.py"], [ref("file", "src/greet.py", (2, 2))], workspace=changed
    )

    assert "2:     return 'Hello %s' % name" in part and "1: def" not in part
    assert "2: Y = 2" in changes


async def test_symbols_of_other_languages_are_found_and_unknown_ones_say_what_would_work(reader, pack):
    files = {
        "web/shape.ts": "export class Shape {\n  area() {\n    return 1\n  }\n}\n",
        "geo/box.go": "package geo\n\ntype Box struct{}\n\nfunc (b *Box) Grow(by int) {\n}\n",
        "style.css": ".a { color: red }\n",
    }
    more = await pack(files)

    answers, _, _ = await reader(
        ["symbol:web/shape.ts::Shape.area", "symbol:Box.Grow", "symbol:style.css::a"],
        [ref("symbol", "Box.Grow")],
        workspace=more,
    )

    assert "2:   area() {\n3:     return 1\n4:   }\n" in answers[0]
    assert "<ref>symbol:Box.Grow (geo/box.go:5)</ref>" in answers[1]
    assert "symbols cannot be looked up in style.css: known are Python, JavaScript" in answers[2]
    assert "Use grep with 'a' instead" in answers[2]


async def test_a_symbol_is_found_with_or_without_its_file(reader):
    [with_path, alone, missing], _, _ = await reader(
        ["symbol:tests/test_greet.py::test_again", "symbol:greet", "symbol:src/greet.py::nobody"],
        [ref("symbol", "greet")],
    )

    assert "(tests/test_greet.py:10)" in with_path
    assert "10: def test_again():\n11:     assert greet('b')" in with_path and "9:" not in with_path
    assert "(src/greet.py:1)" in alone and "1: def greet(name):" in alone
    assert "there is no nobody in src/greet.py" in missing


async def test_files_outside_of_the_read_grants_stay_unread(reader):
    [listed, found, inside], _, _ = await reader(
        ["file:src/greet.py", "symbol:greet", "doc:tests/test_greet.py"],
        [ref("file", "src/greet.py"), ref("symbol", "greet")],
        auth_scope=("read:tests/**",),
    )

    assert "outside this task's scope" in listed
    assert "there is no greet in the source files that may be read" in found
    assert "def test_greet" in inside


@pytest.mark.parametrize(
    "name",
    ["file:../../etc/passwd", "file:/etc/passwd", "file:.git/config", "file:src", "doc:file:///etc/passwd"],
)
async def test_nothing_but_files_of_the_base_is_read(reader, name: str):
    [said], _, _ = await reader([name], [ref("file", "src/greet.py")], auth_scope=("*:**",))

    assert said.startswith(("Error: there is no file", "not allowed: external_directory"))


async def test_a_symbols_path_is_judged_as_it_is_read(reader):
    [around, plain], _, _ = await reader(
        ["symbol:tests/x::y/../../src/greet.py::greet", "symbol:src/greet.py::greet"],
        [ref("file", "tests/test_greet.py")],
        auth_scope=("read:tests/**",),
    )

    assert "outside this task's scope" in around and "outside this task's scope" in plain


ODD_NAMES = [
    *("task:", "task:x}{y", "task:../../x", f"memory:{'m' * 3000}", "blob:sha256:..", "blob:/etc/passwd"),
    *("file:src/greet.py#9-3", "file:src/greet.py#0-0", "symbol:src/greet.py::", "symbol:::a", "doc:http://"),
]


async def test_names_that_a_model_makes_up_are_errors_that_it_hears(reader):
    texts, result, _ = await reader(ODD_NAMES, [ref("file", "src/greet.py")], auth_scope=("read:**",))

    assert result.status is State.COMPLETED
    assert [
        name for name, said in zip(ODD_NAMES, texts, strict=True) if not said.startswith(("Error", "not all"))
    ] == []


async def test_a_task_is_read_when_it_is_named_and_a_stranger_is_not(reader, hands, workspace: Workspace):
    named, stranger = hands.recipe("echo from-the-first"), hands.recipe("echo a-stranger")
    for request in (named, stranger):
        await hands.result(request)
    foreign = hands.recipe("echo foreign", tenant="others")
    await hands.result(foreign)
    await hands.stop()  # the reader has a worker of its own, with a model

    texts, _, _ = await reader(
        [f"task:{named.task_id}", f"task:{stranger.task_id}", f"task:{foreign.task_id}", f"task:{new_task_id()}"],
        [ref("task", named.task_id), ref("task", foreign.task_id)],
    )

    assert "from-the-first" in texts[0]
    assert all("neither among this task's references nor of its trace" in said for said in texts[1:3])
    assert "not kept any more" in texts[3]


async def test_a_session_tells_what_it_was_asked_and_what_it_said(reader, start_agents):
    hands, _ = await start_agents("rules: [{reply: {text: The cache is in src.}}]")
    earlier = hands.request(agent="build", input=TaskInput(prompt="where is the cache"))
    await hands.result(earlier)
    await hands.stop()

    [said], _, _ = await reader([f"memory:{earlier.task_id}"], [ref("memory", earlier.task_id)])

    assert "where is the cache" in said and "The cache is in src." in said


async def test_a_blob_is_read_only_when_it_is_named(reader, transport):
    named, other = await transport.blobs.put(b"line one\nline two\n"), await transport.blobs.put(b"not yours")
    binary = await transport.blobs.put(b"\0\1\2")

    texts, _, _ = await reader(
        [f"blob:{named}#2-2", f"blob:{other}", f"blob:{binary}", "nothing"],
        [ref("blob", named, (2, 2)), ref("blob", binary)],
    )

    assert "2: line two" in texts[0] and "line one" not in texts[0]
    assert "is not among this task's references" in texts[1]
    assert "is binary" in texts[2]
    assert f"'nothing' is no reference; there are: blob:{named}#2-2" in texts[3]


async def test_a_blob_that_is_read_in_pieces_is_fetched_once(reader, transport, monkeypatch):
    kind = type(transport.blobs)
    named, get, fetched = await transport.blobs.put(b"line one\nline two\n"), kind.get, []

    async def noted(self, blob: str) -> bytes:
        fetched.append(blob)
        return await get(self, blob)

    monkeypatch.setattr(kind, "get", noted)

    texts, _, _ = await reader(
        [f"blob:{named}#1-1", f"blob:{named}#2-2"], [ref("blob", named, (1, 1)), ref("blob", named, (2, 2))]
    )

    assert ("1: line one" in texts[0], "2: line two" in texts[1]) == (True, True)
    assert fetched.count(named) == 1


@pytest.mark.parametrize(
    ("bad", "said"),
    [(ref("file", ""), "no name"), (ref("file", "a\nb"), "no name"), (ref("file", "a", (3, 2)), "range")],
)
async def test_a_reference_that_is_none_is_refused_before_a_model_is_asked(reader, bad, said):
    _, result, server = await reader([], [bad])

    assert (result.status, result.errors[0].code) == (State.ERROR, ErrorCode.BAD_INPUT)
    assert said in result.errors[0].message and result.errors[0].hint
    assert server.log.requests == 0
