"""The evidence in answers: read from the text, checked against the base and the work."""

from __future__ import annotations

import time

import pytest

from envelope.messages import TaskInput, Workspace
from workers.delivery.provenance import MAX_PLACES, places

ANSWER = """\
greet is defined in src/greet.py:1 and formats in /workspace/src/greet.py:2-2.
Tests: `tests/test_greet.py:6-7`, (src/greet.py:99) and src/gone.py:1; new.txt:2, docs/no.md:0."""


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("a.py:3", [("a.py", 3, 3)]),
        ("[src/a.py:3](src/a.py:3)", [("src/a.py", 3, 3)]),
        ("src/a.py:3:7: error", [("src/a.py", 3, 3)]),
        ("bin/run:12", [("bin/run", 12, 12)]),
        ("**/workspace/src/a.py:3-9**", [("src/a.py", 3, 9)]),
        ("at 12:30 on localhost:8080, http://example.com:80/a.py:1, version 1.2:3", []),
        ("/etc/passwd:3 ../up.py:4 a.py:x a.py:", []),
        ("a.py:12345678", []),
    ],
)
def test_places_are_what_looks_like_a_file_and_a_line(answer, found):
    assert [(place.path, place.line, place.end_line) for place in places(answer)] == found


def test_a_place_says_what_it_supports():
    assert places("- The cache is cleared: cache.py:4\n")[0].claim == "- The cache is cleared: cache.py:4"


@pytest.mark.parametrize(
    "hostile",
    [
        *("a/" * 100_000, "a" * 300_000, "a+" * 100_000, "a.py:1" * 50_000, "a.b:" * 50_000),
        *(" " + "a/b:1 " * 400_000, f"b.{'a' * 300_000}-:3"),
    ],
)
def test_a_long_line_takes_no_long_time(hostile):
    started_s = time.process_time()
    places(hostile)

    assert time.process_time() - started_s < 20  # measured: far below 1 s; else it is minutes


def test_a_listing_ends_somewhere():
    assert len(places("\n".join(f"a.py:{n}" for n in range(2 * MAX_PLACES)))) == MAX_PLACES


@pytest.mark.redis
@pytest.mark.docker
async def test_only_places_that_exist_support_an_answer(start_agents, workspace: Workspace):
    hands, _ = await start_agents(
        f"""
rules:
  - when: {{turn: 1}}
    reply:
      tool_calls: [{{name: bash, arguments: {{command: "printf 'one\\\\ntwo' > new.txt; rm tests/test_greet.py"}}}}]
  - reply:
      text: |-
        {ANSWER.replace(chr(10), chr(10) + "        ")}
"""
    )
    request = hands.request(agent="build", input=TaskInput(prompt="where"), workspace=workspace, auth_scope=("*:**",))

    result = await hands.result(request)

    assert [(place.path, place.line, place.end_line) for place in result.provenance] == [
        ("src/greet.py", 1, 1),
        ("src/greet.py", 2, 2),
        ("tests/test_greet.py", 6, 7),
        ("new.txt", 2, 2),
    ]
    warned = [event.message for event in await hands.events(request.trace_id, "warning")]
    assert warned == ["the answer names what is not there: src/greet.py:99, src/gone.py:1, docs/no.md:0"]
