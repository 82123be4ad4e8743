"""What an operator types, on a Redis whose fleet is played here: lives of tasks, dead letters, pools, tenants."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import pytest_asyncio
import redis

from envelope.agents import WorkerCard
from envelope.codec import encode
from envelope.errors import ErrorCode, ExitCode
from envelope.events import AskOpened, ChildSpawned, TextDelta
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskProgress, TaskResult
from orchestrator.client import Muster
from orchestrator.settings import Settings
from orchestrator.submit import DRIVERS, RUN, task_request
from transport.base import Claim, Wait
from transport.keys import CellKeys
from transport.settings import connect

pytestmark = [pytest.mark.redis, pytest.mark.acceptance]

POOLS = (DRIVERS, "explore", "general", "build")


class Town:
    """A fleet of one hand-played worker, and the command on the same Redis."""

    def __init__(self, desk, muster: Muster, url: str) -> None:
        self.desk, self.muster, self.url = desk, muster, url
        self.transport = muster.transport

    async def type(self, *words: str):
        return await asyncio.to_thread(self.desk.muster, *words, env={"MUSTER_REDIS_URL": self.url, "TZ": "UTC"})

    async def submit(self, prompt: str = "look around") -> str:
        fields = {"agent": "explore", "pool": "explore", "auth_scope": (), "deadline_ms": 600_000}
        return (await self.muster.submit(task_request(**fields, prompt=prompt))).task_id

    async def claim(self, worker: str = "w1") -> Claim:
        [claim] = await self.transport.claim("explore", worker, slots=1, wait_s=5)
        return claim

    async def finish(self, claim: Claim, *errors: ErrorInfo, dead: str = "", **fields) -> None:
        said = {"trace_id": claim.lease.trace_id, "task_id": claim.lease.task_id, "attempt": claim.lease.attempt}
        status = State.ERROR if errors else State.COMPLETED
        await self.transport.finish(claim.lease, TaskResult(**said, status=status, errors=errors, **fields), dead=dead)

    async def die(self) -> str:
        task_id = await self.submit()
        error = ErrorInfo.of(ErrorCode.POISON, "it took three workers down")
        await self.finish(await self.claim(), error, dead="it took three workers down")
        return task_id

    async def serve(self) -> None:
        for pool in POOLS:
            await self.transport.announce(WorkerCard(worker=f"{pool}-1", pool=pool, slots=4), ttl_s=60)


@pytest_asyncio.fixture
async def town(desk, plain_redis: str, keep_settings) -> AsyncIterator[Town]:
    settings = Settings(redis_url=plain_redis, state_dir=Path(desk.environment["MUSTER_STATE_DIR"]))
    transport = await connect(settings)
    yield Town(desk, Muster(transport, settings), plain_redis)
    await transport.close()


async def test_show_tells_a_life_while_it_lasts(town):
    task_id = await town.submit()
    await town.transport.give_back((await town.claim("w1")).lease)
    await town.transport.park((await town.claim("w2")).lease, Wait(asks=frozenset({"a1"})))

    done = await town.type("task", "show", task_id)

    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    for text in ("on w1: given back by its worker", "on w2: parked, waits for 1 answer", "waiting", "left"):
        assert text in done.stderr


async def test_what_is_older_than_a_thousand_roots_is_found_by_its_end_and_answered(town):
    await town.serve()
    task_id = await town.submit()
    await town.transport.park((await town.claim()).lease, Wait(asks=frozenset({"ask_old1"})))
    fields = {"agent": "explore", "pool": "explore", "auth_scope": (), "deadline_ms": 600_000}
    await town.transport.submit([task_request(**fields, prompt="x") for _ in range(1_001)])

    listed = await town.type("ask", "list", "--json")
    answered = await town.type("ask", "answer", "old1", "reject")
    shown = await town.type("task", "show", "--json", task_id[-8:])

    assert [json.loads(line)["task_id"] for line in listed.stdout.splitlines()] == [task_id]
    assert answered.exit_code == 0, answered.stderr
    assert json.loads(shown.stdout)["task_id"] == task_id
    assert list(await town.transport.answers(task_id)) == ["ask_old1"]


def asking(claim: Claim, **fields) -> TaskProgress:
    said = {"trace_id": claim.lease.trace_id, "task_id": claim.lease.task_id, "attempt": claim.lease.attempt}
    asked = AskOpened(ask_id="ask_swapped", permission="bash", **fields)
    return TaskProgress(**said, seq=0, at_ms=0, status=State.RUNNING, events=(asked,))


async def test_an_answer_is_to_what_was_shown_on_this_machine(town, plain_redis):
    """Whoever has a worker's Redis password can write another question into the stream, and back."""
    await town.serve()
    await town.submit()
    claim = await town.claim()
    truth = asking(claim, patterns=("rm -rf build",), detail="rm -rf build")
    events = CellKeys("main").name("events", claim.lease.trace_id)
    await town.transport.emit(claim.lease, truth)
    await town.transport.park(claim.lease, Wait(asks=frozenset({"ask_swapped"})))

    with redis.Redis.from_url(plain_redis) as raw:
        raw.xadd(events, {"m": encode(asking(claim, patterns=("ls",), detail="ls"))})
        shown = await town.type("ask", "show", "swapped")
        raw.xadd(events, {"m": encode(truth)})
    swapped = await town.type("ask", "answer", "swapped", "once")
    [listed] = (await town.type("ask", "list", "--json")).stdout.splitlines()
    answered = await town.type("ask", "answer", "swapped", "once")

    assert "| ls" in shown.stderr
    assert (swapped.exit_code, answered.exit_code) == (2, 0), answered.stderr
    assert "is another than the one that you were shown" in swapped.stderr
    assert "muster ask show ask_swapped" in swapped.stderr
    [answer] = (await town.transport.answers(claim.lease.task_id)).values()
    assert answer.asked == json.loads(listed)["asked"] == truth.events[0].digest()


async def test_a_script_that_answers_what_was_not_shown_tells_what_it_was(town):
    await town.serve()
    await town.submit()
    claim = await town.claim()
    await town.transport.emit(claim.lease, asking(claim, patterns=("git push",), detail="git push"))
    await town.transport.park(claim.lease, Wait(asks=frozenset({"ask_swapped"})))

    answered = await town.type("ask", "answer", "swapped", "once")

    assert answered.exit_code == 0, answered.stderr
    assert "| git push" in answered.stderr


def typed_at_a_terminal(desk, url: str, words: list[str], says: str) -> tuple[int, str]:
    """What the command ends with, and what is on the terminal; `says` is typed at its question."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "orchestrator.cli.main", *words]
    environment = {**desk.environment, "TERM": "xterm", "MUSTER_REDIS_URL": url}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=desk.home, env=environment) as done:
        os.close(theirs)
        seen = b""
        with suppress(OSError):  # it has closed the terminal
            while piece := os.read(ours, 65536):
                seen += piece
                if b"[y/N]" in piece:
                    os.write(ours, says.encode() + b"\n")
    os.close(ours)
    return done.returncode, seen.decode()


async def test_a_person_at_a_terminal_sees_what_they_allow_before_it_is_allowed(town):
    await town.serve()
    await town.submit()
    claim = await town.claim()
    await town.transport.emit(claim.lease, asking(claim, patterns=("git push",), detail="git push"))
    await town.transport.park(claim.lease, Wait(asks=frozenset({"ask_swapped"})))
    words = ["ask", "answer", "swapped", "once"]

    code, seen = await asyncio.to_thread(typed_at_a_terminal, town.desk, town.url, words, "n")

    assert code == 130  # as if they had left
    assert 0 < seen.index("| git push") < seen.index("[y/N]")
    assert await town.transport.answers(claim.lease.task_id) == {}


async def test_show_tells_a_life_that_is_over_and_the_answer_alone_is_data(town):
    task_id = await town.submit()
    await town.finish(await town.claim(), output=Output(text="all is well"))

    done = await town.type("task", "show", task_id)

    assert done.stdout == "all is well\n"
    for text in ("attempt 1", "on w1: completed", "in all", "10 m 00 s from its acceptance", "were left"):
        assert text in done.stderr


async def test_show_says_who_cancelled_and_why(town):
    task_id = await town.submit()
    await town.muster.cancel(task_id, "the plan changed", by="ann")

    done = await town.type("task", "show", task_id)

    assert "by ann: the plan changed" in done.stderr


async def test_show_has_the_whole_life_for_programs(town):
    task_id = await town.submit()
    await town.finish(await town.claim())

    told = json.loads((await town.type("task", "show", "--json", task_id)).stdout)

    assert (told["task_id"], told["state"], told["result"]["status"]) == (task_id, "completed", "completed")
    assert [attempt["worker"] for attempt in told["life"]["attempts"]] == ["w1"]
    assert [phase["state"] for phase in told["life"]["phases"]] == ["pending", "running"]


async def test_logs_of_a_task_under_way_tell_what_there_is_and_end(town):
    task_id = await town.submit()
    lease = (await town.claim()).lease
    said = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
    text = TextDelta(text="I look first.")
    await town.transport.emit(lease, TaskProgress(**said, seq=0, at_ms=0, status=State.RUNNING, events=(text,)))

    done = await town.type("task", "logs", task_id)

    assert done.exit_code == 0
    assert done.stdout.splitlines() == ["explore: pending", "explore: running on w1", "explore: I look first."]
    assert "has not ended, it is running, and no live worker serves its pool 'explore'" in done.stderr


async def test_logs_of_a_goal_tell_of_its_agent_too(town):
    step = {"agent": "explore", "pool": "explore", "auth_scope": []}
    fields = {"agent": RUN, "pool": DRIVERS, "auth_scope": (), "deadline_ms": 600_000, "prompt": "look around"}
    goal = task_request(**fields, params=step)
    agent = task_request(parent=goal, **{**fields, **step, "auth_scope": ()})
    await town.muster.submit_many([goal])
    [driving] = await town.transport.claim(DRIVERS, "d1", slots=1, wait_s=5)
    spawned = ChildSpawned(child_task_id=agent.task_id, agent="explore", title="look around")
    of_goal = {"trace_id": goal.trace_id, "task_id": goal.task_id, "attempt": driving.lease.attempt}
    told = TaskProgress(**of_goal, seq=0, at_ms=0, status=State.RUNNING, events=(spawned,))
    await town.transport.emit(driving.lease, told)
    await town.muster.submit_many([agent])
    lease = (await town.claim()).lease
    of_agent = {"trace_id": lease.trace_id, "task_id": lease.task_id, "attempt": lease.attempt}
    text = TextDelta(text="I look first.")
    await town.transport.emit(lease, TaskProgress(**of_agent, seq=0, at_ms=0, status=State.RUNNING, events=(text,)))

    whole = (await town.type("task", "logs", goal.task_id)).stdout.splitlines()
    part = (await town.type("task", "logs", agent.task_id)).stdout.splitlines()

    assert {"run: running on d1", "run: started explore", "explore: I look first."} <= set(whole)
    assert "explore: I look first." in part and not [line for line in part if line.startswith("run:")]


async def test_a_task_that_changed_nothing_has_no_diff_and_says_so(town):
    task_id = await town.submit()
    await town.finish(await town.claim())

    done = await town.type("task", "diff", task_id)

    assert (done.exit_code, done.stdout) == (0, "")
    assert "changed nothing" in done.stderr


async def test_what_has_ended_is_not_cancelled_and_says_where_to_look(town):
    await town.serve()
    task_id = await town.submit()
    await town.finish(await town.claim())

    done = await town.type("task", "cancel", task_id)

    assert done.exit_code == ExitCode.USAGE
    assert "has ended already: completed" in done.stderr and f"muster task show {task_id}" in done.stderr


async def test_a_subagent_goes_to_the_background_and_a_task_that_is_none_stays_where_it_is(town):
    await town.serve()
    caller = await town.submit()
    lease = (await town.claim()).lease
    fields = {"agent": "explore", "pool": "explore", "auth_scope": (), "deadline_ms": 60_000, "prompt": "look there"}
    child = task_request(parent=await town.muster.request(caller), **fields)
    await town.muster.submit_many([child])
    await town.transport.park(lease, Wait(children=frozenset({child.task_id})))

    none = await town.type("task", "background", caller)
    done = await town.type("task", "background", child.task_id)
    again = await town.type("task", "background", child.task_id)

    assert (none.exit_code, done.exit_code, again.exit_code) == (ExitCode.USAGE, 0, 0)
    assert f"error: the task {caller} is no subagent\nhint: see which there are: muster task tree" in none.stderr
    assert (
        done.stderr
        == again.stderr
        == ("it goes on in the background; its caller goes on, too, and is told when it has ended\n")
    )
    assert (await town.muster.record(caller)).state is State.PENDING


async def test_logs_follow_to_the_end_when_they_are_told_to(town):
    await town.serve()
    task_id = await town.submit()
    claim = await town.claim()
    following = asyncio.create_task(town.type("task", "logs", "--follow", task_id))
    await town.finish(claim)

    done = await following

    assert done.stdout.splitlines()[-1].startswith("explore: ✔ completed")


async def test_dead_letters_are_listed_shown_and_requeued(town):
    await town.serve()
    dead = await town.die()

    listed = await town.type("dlq", "list")
    assert (listed.stdout, "it took three workers down" in listed.stderr) == ("", True)
    [letter] = map(json.loads, (await town.type("dlq", "list", "--json")).stdout.splitlines())
    assert (letter["task_id"], letter["code"], letter["worker"]) == (dead, "poison", "w1")

    shown = await town.type("dlq", "show", dead[-8:])
    for text in ("poison: it took three workers down", "explore in the pool explore", "look around", "on w1"):
        assert text in shown.stderr

    requeued = await town.type("dlq", "requeue", dead[-8:])
    assert requeued.exit_code == 0, requeued.stderr
    assert (await town.muster.request(requeued.stdout.strip())).retry_of == dead
    assert (await town.type("dlq", "list")).stderr.strip() == "no dead letters"


async def test_requeueing_all_of_nothing_starts_nothing(town):
    done = await town.type("dlq", "requeue", "--all")

    assert (done.exit_code, done.stdout) == (0, ""), done.stderr
    assert "there are no dead letters" in done.stderr
    assert "started" not in done.stderr


async def test_all_letters_are_requeued_but_those_that_cannot_be(town):
    await town.serve()
    dead = [await town.die() for _ in range(3)]
    lost = await town.muster.record(dead[1])
    name = f"{{muster:main:0}}:task:{lost.task_id}"
    await town.transport._cells.first.client.call("HSET", name, "envelope", b"no request")

    done = await town.type("dlq", "requeue", "--all")

    assert (done.exit_code, len(done.stdout.splitlines())) == (8, 2)
    assert "are no request and cannot be requeued" in " ".join(done.stderr.split())
    assert [letter.task_id for letter in await town.muster.dead_letters()] == [dead[1]]
    shown = await town.type("dlq", "show", dead[1])
    assert "its bytes cannot be read" in shown.stderr


async def test_a_letter_that_has_outlived_its_task_is_shown_and_purged(town):
    dead = await town.die()
    await town.transport._cells.first.client.call("DEL", f"{{muster:main:0}}:task:{dead}")

    shown = await town.type("dlq", "show", dead[-8:])
    assert (shown.exit_code, "it took three workers down" in shown.stderr) == (0, True)
    assert (await town.type("dlq", "purge", "--yes", dead[-8:])).exit_code == 0
    assert await town.muster.dead_letters() == []


async def test_a_purge_needs_a_word_where_nobody_can_be_asked(town):
    await town.die()

    refused = await town.type("dlq", "purge", "--all")
    assert (refused.exit_code, "--yes" in refused.stderr) == (2, True)
    assert (await town.type("dlq", "purge", "--all", "--yes")).stderr.strip() == "1 dead letter taken off the list"
    assert await town.muster.dead_letters() == []


@pytest.mark.parametrize("words", [("requeue",), ("purge", "--yes"), ("requeue", "--all", "abcd1234")])
async def test_which_letters_are_meant_must_be_said(town, words):
    done = await town.type("dlq", *words)

    assert (done.exit_code, "name the tasks, or say --all" in done.stderr) == (2, True)


async def test_pools_tell_who_serves_them_and_what_waits(town):
    await town.serve()
    await town.submit()
    await town.submit()
    await town.claim()

    rows = {
        row["pool"]: row for row in map(json.loads, (await town.type("pool", "list", "--json")).stdout.splitlines())
    }

    assert set(rows) == set(POOLS)
    assert {name: rows["explore"][name] for name in ("ready", "running", "workers", "slots")} == {
        "ready": 1, "running": 1, "workers": 1, "slots": 4,
    }  # fmt: skip
    assert "explore" in (await town.type("pool", "list")).stderr


async def test_what_a_tenant_gets_is_set_and_listed(town):
    assert "no cap" in (await town.type("pool", "tenants")).stderr

    allotted = await town.type("pool", "allot", "acme", "--weight", "2.5", "--max-running", "10", "--max-tree", "7")

    assert allotted.stderr.strip() == "acme: weight 2.5, at most 10 at once, at most 7 of one goal"
    [row] = map(json.loads, (await town.type("pool", "tenants", "--json")).stdout.splitlines())
    assert row == {"tenant": "acme", "weight": 2.5, "max_running": 10, "max_queued": None, "max_tree": 7}


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("no tenant",), "is no tenant's name"),
        (("a", "--weight", "0"), "is no share"),
        (("a", "--weight", "nan"), "is no share"),
        (("a", "--max-running", "-1"), "fewer than no tasks"),
        (("a", "--max-queued", "-1"), "no number of tasks"),
    ],
)
async def test_what_no_tenant_can_get_is_refused(town, words, sentence):
    done = await town.type("pool", "allot", *words)

    assert (done.exit_code, sentence in done.stderr) == (2, True)
