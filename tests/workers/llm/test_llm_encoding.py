"""A request's body as bytes: the same JSON, whatever was encoded before it."""

from __future__ import annotations

import json

import pytest

from workers.llm.encoding import BodyEncoder

READ = {"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}
LIST = {"type": "function", "function": {"name": "list", "parameters": {"type": "object"}}}
SAID = [{"role": "user", "content": 'ä "quoted"\n\N{SNOWMAN}'}]


def test_each_body_is_encoded_whole_while_its_tools_come_and_go():
    encoder = BodyEncoder()
    bodies = [
        {"model": "m", "messages": SAID, "tools": tools, "max_tokens": 9}
        for tools in ([READ], [READ], [READ, LIST], [], [LIST], None)
    ]
    bodies.append({"model": "m"})

    assert [json.loads(encoder.encoded(body)) for body in bodies] == bodies


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"content": "half \ud800 a pair"}]},
        {"messages": SAID, "tools": [{"description": "half \udc00 a pair"}]},
    ],
    ids=["in a message", "in a tool"],
)
def test_half_a_surrogate_pair_is_sent_as_json_can_say_it(body):
    encoder = BodyEncoder()

    assert json.loads(encoder.encoded(body)) == body
    assert json.loads(encoder.encoded(body)) == body  # a failure leaves nothing half made behind
