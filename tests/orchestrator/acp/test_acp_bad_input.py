"""What an editor may send or have wrong: each is an error with our sentence and hint, and nothing ends."""

from __future__ import annotations

import asyncio
import json
import sys
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from acp import RequestError, audio_block, resource_link_block, text_block

pytestmark = [pytest.mark.docker, pytest.mark.redis]


async def refused(call) -> RequestError:
    with pytest.raises(RequestError) as caught:
        await call
    return caught.value


async def test_what_cannot_be_done_is_said_and_the_session_goes_on(desk, repository: Path):
    async with desk.editing() as editor:
        session = (await editor.agent.new_session(cwd=str(repository))).session_id
        agent = editor.agent
        outside = desk.home / "outside"
        outside.mkdir()
        cases = {
            "is not in a git repository": agent.new_session(cwd=str(outside)),
            "There is no folder": agent.new_session(cwd=str(desk.home / "gone")),
            "is no absolute path": agent.new_session(cwd="here"),
            "there is no session": agent.prompt(session_id="01a2", prompt=[text_block("x")]),
            "there is no session '../../x'": agent.load_session(session_id="../../x", cwd=str(repository)),
            "there is no mode 'explore'": agent.set_session_mode(session_id=session, mode_id="explore"),
            "nothing in the prompt": agent.prompt(session_id=session, prompt=[text_block(" ")]),
            "10,240 KiB, and 256 KiB are the most": agent.prompt(
                session_id=session, prompt=[text_block("x" * 10 * 1024 * 1024)]
            ),
            "audio cannot be heard": agent.prompt(session_id=session, prompt=[audio_block("eA==", "audio/wav")]),
            "there is no command /nonsense": agent.prompt(session_id=session, prompt=[text_block("/nonsense")]),
            "there is no command /aaaaa": agent.prompt(session_id=session, prompt=[text_block("/" + "a" * 300)]),
            "/undo is about what was said before": agent.prompt(session_id=session, prompt=[text_block("/undo")]),
            "no change that is not in your files": agent.prompt(session_id=session, prompt=[text_block("/apply")]),
        }
        for said, call in cases.items():
            error = await refused(call)
            assert said in str(error)
            assert "\nhint: " in str(error) or said == "There is no folder", str(error)
        odd = resource_link_block("odd", "file://[")
        assert (await editor.say(session, "half of an emoji: \ud83d", odd)).stop_reason == "end_turn"


async def test_a_change_that_does_not_fit_the_files_leaves_them_alone(desk, repository: Path):
    async with desk.editing() as editor:
        session = (await editor.agent.new_session(cwd=str(repository))).session_id
        prompt = asyncio.create_task(editor.say(session, "make it two here"))
        (await editor.next_asked()).choose("Allow")
        change = await editor.next_asked()
        (repository / "a.txt").write_text("mine\n")
        change.choose("Apply it to my files")

        assert (await prompt).stop_reason == "end_turn"
        assert (repository / "a.txt").read_text() == "mine\n"
        assert "was not applied: The change does not fit the files" in editor.said(session)
        assert "does not fit" in str(await refused(editor.say(session, "/apply")))


async def test_what_stays_behind_is_told(desk, repository: Path):
    (repository / "a.txt").write_text("mine\n")
    async with desk.editing() as editor:
        session = (await editor.agent.new_session(cwd=str(repository))).session_id
        await editor.say(session, "hello")

        assert "without your uncommitted changes: a.txt" in editor.said(session, "agent_thought_chunk")


async def test_a_fleet_that_cannot_be_reached_is_an_error_and_not_the_end(desk, repository: Path):
    lost = replace(desk, environment={**desk.environment, "MUSTER_REDIS_URL": "redis://127.0.0.1:1/0"})
    async with lost.editing() as editor:
        first = await refused(editor.agent.new_session(cwd=str(repository)))
        second = await refused(editor.agent.new_session(cwd=str(repository)))

        assert first.code == -32603 and "127.0.0.1:1" in str(first) and "\nhint: " in str(first)
        assert str(second) == str(first)


def test_who_only_looks_has_no_gate(desk):
    refused = desk.muster("acp", "--read-only", "--gate", "true")

    assert refused.returncode == 7
    assert "this is read-only, and --gate would prove a change" in refused.stderr


@asynccontextmanager
async def raw(desk):
    """The agent as a bare process: `send` a line, `receive` a message."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "orchestrator.cli.main", "acp"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=desk.environment,
        cwd=desk.home,
        limit=1024 * 1024,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


INITIALIZE = {"jsonrpc": "2.0", "id": 7, "method": "initialize", "params": {"protocolVersion": 1}}


async def test_garbage_is_answered_and_what_follows_is_heard(desk):
    lines = [
        b"this is no json",
        b"[1, 2]",
        b"42",
        b"\xff\xfe",
        b"[" * 100_000,
        b"",
        b"x" * (33 * 1024 * 1024),
        b'{"jsonrpc": "2.0", "id": 1, "method": "no/such"}',
        b'{"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": 5}}',
        b'{"jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": []}',
        b'{"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": "gone"}}',
        json.dumps(INITIALIZE).encode(),
    ]
    async with raw(desk) as process, asyncio.timeout(60):
        process.stdin.write(b"\n".join(lines) + b"\n")
        answers: list[dict] = []
        while not any(answer.get("id") == 7 for answer in answers):
            answers.append(json.loads(await process.stdout.readline()))  # nothing else is ever on it
        process.stdin.close()
        await process.wait()

    codes = [answer["error"]["code"] for answer in answers if answer["id"] is None]
    assert codes == [-32700, -32600, -32600, -32700, -32700, -32700]
    assert {answer["id"]: answer["error"]["code"] for answer in answers if answer["id"] in (1, 2, 3)} == {
        1: -32601, 2: -32602, 3: -32602,
    }  # fmt: skip
    [greeting] = [answer["result"] for answer in answers if answer["id"] == 7]
    assert greeting["agentInfo"]["name"] == "muster"
    assert greeting["agentCapabilities"]["loadSession"] is True
    assert greeting["agentCapabilities"]["sessionCapabilities"].keys() == {"list", "resume", "fork", "close"}
    assert process.returncode == 0
