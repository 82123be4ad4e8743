"""The scripted model server: as a program, as a server, and its scripts."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import aiohttp
import pytest

from workers.agents.registry import builtin
from workers.errors import BadScript
from workers.llm.script import Conversation, Player, load_script
from workers.tools.registry import all_tools
from workers.tools.schema import first_fault

DEMO = Path(__file__).parents[3] / "examples" / "demo" / "model.yaml"


async def post(server_url: str, *messages: tuple[str, str], **options) -> tuple[int, dict]:
    body = {"model": "m", "messages": [{"role": role, "content": text} for role, text in messages], **options}
    async with aiohttp.ClientSession() as client, client.post(f"{server_url}/v1/chat/completions", json=body) as reply:
        return reply.status, await reply.json()


def conversation(*results: str, turn: int = 1, prompt: str = "p") -> Conversation:
    return Conversation("m", "You search.", prompt, prompt, prompt, results, turn, 100)


def play(script: str, now: Conversation):
    return Player(load_script(script)).play(now)


async def test_a_whole_reply_is_given_when_no_stream_is_asked_for(serve):
    server = await serve("rules: [{reply: {text: hi, usage: {input_tokens: 3, output_tokens: 1}}}]")

    status, reply = await post(server.url, ("user", "hello"))

    assert status == 200
    assert reply["choices"][0]["message"] == {"role": "assistant", "content": "hi"}
    assert (reply["choices"][0]["finish_reason"], reply["usage"]["total_tokens"]) == ("stop", 4)


async def test_conversations_are_served_at_once_and_counted(serve):
    server = await serve("rules: [{reply: {text: hi}, fault: {stall_s: 0.2}}]")

    await asyncio.gather(*(consume(server.url, f"conversation {n}") for n in range(8)))

    assert (server.log.requests, server.log.peak_in_flight, server.log.in_flight) == (8, 8, 0)


async def consume(url: str, prompt: str) -> bytes:
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": prompt}]}
    async with aiohttp.ClientSession() as client, client.post(f"{url}/v1/chat/completions", json=body) as reply:
        return await reply.read()


async def test_a_reply_is_held_until_somebody_lets_it_go(serve):
    server = await serve("rules: [{reply: {text: hi}, fault: {until: told, after_bytes: 40}}]")
    body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hold"}]}
    async with aiohttp.ClientSession() as client, client.post(f"{server.base_url}/chat/completions", json=body) as held:
        first = await held.content.readexactly(40)
        rest = asyncio.ensure_future(held.content.read())
        await client.post(f"{server.url}/go/another")
        later = asyncio.ensure_future(consume(server.url, "hold, too"))
        await asyncio.wait({rest, later}, timeout=0.1)
        was_held = not rest.done() and not later.done()
        await client.post(f"{server.url}/go/told")

        assert was_held and b"[DONE]" in first + await rest and b"[DONE]" in await later
        assert b"[DONE]" in await consume(server.url, "after it was told")


async def test_what_was_asked_can_be_looked_up(serve):
    server = await serve("rules: [{reply: {text: hi}}]")
    await post(server.url, ("user", "hello"))

    async with aiohttp.ClientSession() as client, client.get(f"{server.url}/requests") as reply:
        log = await reply.json()

    assert (log["requests"], log["in_flight"]) == (1, 0)
    assert log["bodies"][0]["messages"] == [{"role": "user", "content": "hello"}]


async def test_a_request_that_no_rule_fits_is_refused_with_the_reason(serve):
    server = await serve("rules: [{when: {turn: 2}}]")

    status, reply = await post(server.url, ("user", "unexpected"))

    assert status == 400
    assert "no rule fits turn 1" in reply["error"]["message"] and "unexpected" in reply["error"]["message"]


async def test_as_a_program_it_prints_its_address_and_ends_on_a_signal(tmp_path):
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"rules": [{"reply": {"text": "from a file"}}]}))
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers.llm.scripted_server", "--script", str(script), "--port", "0",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    url = json.loads(await process.stdout.readline())["url"]

    _, reply = await post(url, ("user", "hello"))
    process.terminate()

    assert reply["choices"][0]["message"]["content"] == "from a file"
    assert await process.wait() == 0


async def test_a_script_with_a_mistake_is_refused_at_the_start(tmp_path):
    script = tmp_path / "script.yaml"
    script.write_text("rules: [{replay: {text: hi}}]")
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "workers.llm.scripted_server", "--script", str(script), stderr=asyncio.subprocess.PIPE
    )

    _, errors = await process.communicate()

    assert process.returncode == 2
    assert b"replay" in errors and b"Traceback" not in errors


def test_the_first_rule_that_fits_wins():
    script = "rules: [{when: {turn: 2}, reply: {text: second}}, {when: {system_contains: search}, reply: {text: any}}]"

    assert play(script, conversation(turn=1)).reply.text == "any"
    assert play(script, conversation("r", turn=2)).reply.text == "second"


@pytest.mark.parametrize(
    ("when", "fits"),
    [
        ("{prompt_contains: find}", True),
        ("{prompt_contains: other}", False),
        ("{user_contains: find, tool_results: 2}", True),
        ("{tool_results: 1}", False),
        ("{result_contains: second}", True),
        ("{result_contains: first}", False),
        ("{}", True),
    ],
)
def test_a_rule_looks_at_the_state_of_the_conversation(when, fits):
    script = f"rules: [{{when: {when}, reply: {{text: it}}}}, {{reply: {{text: other}}}}]"

    rule = play(script, conversation("the first", "the second", turn=3, prompt="find it"))

    assert (rule.reply.text == "it") is fits


def test_a_rule_is_used_up_in_each_conversation_for_itself():
    player = Player(load_script("rules: [{times: 1, reply: {text: once}}, {reply: {text: then}}]"))

    said = [player.play(conversation(prompt=prompt)).reply.text for prompt in ("a", "b", "a", "b")]

    assert said == ["once", "once", "then", "then"]


def test_a_reply_quotes_what_the_tools_found():
    rule = play(
        r"""
        rules:
          - capture:
              where: {result: 0, pattern: 'Line (\d+): (use.*)', line: 'a.py:\1: \2', limit: 2}
              first: {result: 0, pattern: 'Line (\d+)', line: '\1'}
            reply:
              text: "${where} / ${result.-1}"
              tool_calls: [{name: read, raw_arguments: '{"offset": ${first}}'}, {name: x, arguments: {a: ["${first}"]}}]
        """,
        conversation("Line 3: use it\nLine 9: use that\nLine 12: use more", "the end", turn=2),
    )

    assert rule.reply.text == "a.py:3: use it\na.py:9: use that / the end"
    assert rule.reply.tool_calls[0].raw_arguments == '{"offset": 3}'
    assert rule.reply.tool_calls[1].arguments == {"a": ["3"]}


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ("{capture: {x: {pattern: absent}}, reply: {text: '${x}'}}", "finds nothing"),
        ("{capture: {x: {result: 5, pattern: a}}, reply: {text: '${x}'}}", "no tool result 5"),
        ("{reply: {text: '${nothing}'}}", "nothing is called ${nothing}"),
    ],
)
def test_evidence_that_is_not_there_is_an_error_and_never_made_up(rule, said):
    with pytest.raises(BadScript) as refused:
        play(f"rules: [{rule}]", conversation("result"))

    assert said in refused.value.message


def test_the_demos_script_speaks_to_the_agents_and_tools_that_there_are():
    script, tools = load_script(DEMO.read_text()), all_tools()
    prompts = "\n".join(agent.prompt for agent in builtin().values())

    assert len(script.rules) > 10
    for rule in script.rules:
        assert rule.when.system_contains in prompts
        for call in rule.reply.tool_calls:
            arguments = call.arguments
            if call.raw_arguments:
                arguments = json.loads(re.sub(r"\$\{\w+\}", "1", call.raw_arguments))  # as a capture would fill it
            assert first_fault(tools[call.name].parameters, arguments) is None, call
