"""The Python client, the catalogue and the settings, as their users meet them."""

from __future__ import annotations

import pytest

from envelope.agents import AgentCard, ProjectCards, WorkerCard
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import Output, TaskResult
from orchestrator.catalogue import agent_named, default_agent
from orchestrator.client import Muster
from orchestrator.errors import BadInput, BadSettings, UnknownName
from orchestrator.settings import load_settings
from orchestrator.submit import task_request
from transport.blobs import MAX_BLOB_BYTES
from transport.errors import NotFound, Refused

FIELDS = {"agent": "build", "pool": "build", "deadline_ms": 60_000, "auth_scope": ()}
CARDS = [
    WorkerCard(
        worker="w1",
        pool="build",
        slots=1,
        agents=(
            AgentCard(name="build", mode="primary", pool="build"),
            AgentCard(name="explore", mode="subagent", pool="explore"),
            AgentCard(name="verify", mode="recipe", pool="build", hidden=True),
        ),
    )
]


@pytest.fixture
def writing(any_stage):
    async def where() -> dict:
        given = await any_stage.repository({"a.py": "old\n"})
        return {**FIELDS, "auth_scope": ("edit:**",), "workspace": {"bundle": given.bundle, "base": given.base}}

    return where


async def test_results_are_gathered_in_the_order_of_the_handles(any_stage, writing):
    requests = [task_request(**await writing(), prompt=str(number)) for number in range(5)]
    handles = await any_stage.muster.submit_many(requests)

    async with any_stage.workers():
        results = await any_stage.muster.gather(reversed(handles))

    assert [result.task_id for result in results] == [handle.task_id for handle in reversed(handles)]


async def test_a_task_is_submitted_by_its_fields(any_stage, writing):
    any_stage.builders.edit = lambda _task, files: files.update({"a.py": "new\n"})

    async with any_stage.workers():
        handle = await any_stage.muster.submit(**await writing(), prompt="renew")
        [result] = await any_stage.muster.gather([handle, handle][:1])

    assert b"-old\n+new" in await any_stage.muster.diff(handle.task_id)
    assert result.status is State.COMPLETED


async def test_a_task_without_a_scope_gets_its_agents_own_and_its_pool(any_stage):
    card = CARDS[0].model_copy(
        update={"agents": (AgentCard(name="build", mode="primary", pool="build", auth_scope=("edit:**",)),)}
    )
    await any_stage.transport.announce(card, ttl_s=60)

    by_fields, ready_made = await any_stage.muster.submit_many(
        [
            {"agent": "build", "deadline_ms": 60_000},
            task_request(agent="build", pool="general", deadline_ms=60_000),
        ]
    )

    requests = [await any_stage.muster.request(handle.task_id) for handle in (by_fields, ready_made)]
    assert [(request.recipient, request.auth_scope) for request in requests] == [
        ("build", ("edit:**",)),
        ("general", ("edit:**",)),
    ]


async def test_an_agent_that_no_worker_offers_is_named_with_the_closest(any_stage):
    await any_stage.transport.announce(CARDS[0], ttl_s=60)

    with pytest.raises(UnknownName, match="there is no agent 'biuld'") as caught:
        await any_stage.muster.submit(agent="biuld", deadline_ms=60_000)

    assert caught.value.hint == "did you mean 'build'?"


async def test_a_task_under_way_has_no_diff_yet(any_stage):
    handle = await any_stage.muster.submit(**FIELDS)

    with pytest.raises(NotFound, match="has not ended yet"):
        await any_stage.muster.diff(handle.task_id)


async def test_a_cancelled_task_ends_as_cancelled(any_stage):
    handle = await any_stage.muster.submit(**FIELDS)

    assert await any_stage.muster.cancel(handle.task_id) == 1
    [result] = await any_stage.muster.gather([handle])
    assert result.status is State.CANCELLED


async def test_repeatable_work_is_done_again_only_when_it_did_not_complete(any_stage):
    def request():
        return task_request(**FIELDS, idempotency_key="the work")

    first = await any_stage.muster.submit_repeatable(request())
    await any_stage.muster.cancel(first.task_id)
    second = await any_stage.muster.submit_repeatable(request())
    third = await any_stage.muster.submit_repeatable(request())

    assert second.task_id != first.task_id
    assert (third.task_id, third.existing) == (second.task_id, True)
    assert (await any_stage.muster.request(second.task_id)).retry_of == first.task_id


async def test_a_file_is_stored_once_and_named(any_stage, tmp_path):
    (tmp_path / "log.txt").write_text("hello")

    attached = await any_stage.muster.attach(tmp_path / "log.txt")

    assert (attached.name, attached.media_type, attached.size_bytes) == ("log.txt", "text/plain", 5)
    assert attached.blob == (await any_stage.muster.attach(b"hello")).blob


async def test_what_no_blob_can_hold_is_refused_with_the_limit_before_it_is_read(memory_stage, tmp_path, monkeypatch):
    with (tmp_path / "core").open("wb") as file:
        file.truncate(MAX_BLOB_BYTES + 1)
    with pytest.raises(BadInput, match="core takes 257 MiB, and a blob has 256 at most") as refused:
        await memory_stage.muster.attach(tmp_path / "core")
    assert refused.value.hint == "send the part that matters"

    monkeypatch.setattr("orchestrator.packing.MAX_BLOB_BYTES", 100)
    with pytest.raises(BadInput, match=r"the history of .* takes 1 MiB, and a blob has") as refused:
        await memory_stage.repository({"a": "1\n"})
    assert "git clone --depth 1" in refused.value.hint


@pytest.mark.parametrize(
    ("name", "message", "hint"),
    [
        ("biuld", "there is no agent 'biuld'", "did you mean 'build'?"),
        ("explore", "the agent 'explore' is a subagent", "start one of: build"),
        ("verify", "the agent 'verify' is a recipe", "start one of: build"),
    ],
)
def test_agents_that_people_cannot_start_are_told_apart(name, message, hint):
    with pytest.raises(UnknownName) as caught:
        agent_named(name, CARDS)

    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_the_newest_workers_card_counts():
    old, new = (
        CARDS[0].model_copy(
            update={"version": version, "agents": (AgentCard(name="build", mode="primary", pool=version),)}
        )
        for version in ("0.9.0", "0.10.0")
    )

    assert agent_named("build", [new, old]).pool == "0.10.0"


def test_an_agent_is_found_by_name():
    assert agent_named("build", CARDS).pool == "build"
    assert agent_named("explore", CARDS, by_person=False).pool == "explore"


def test_the_environment_goes_before_the_users_file(keep_settings, tmp_path, monkeypatch):
    (tmp_path / "none.toml").write_text('budget_microusd = 1\nfleet = "mine"\n[pools]\nbuild = 9\n')
    monkeypatch.setenv("MUSTER_BUDGET_MICROUSD", "2")

    settings = load_settings()

    assert (settings.budget_microusd, settings.fleet, settings.pools) == (2, "mine", {"build": 9})


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("buget_microusd = 1", "unknown setting 'buget_microusd'", "did you mean 'budget_microusd'?"),
        ("deadline_ms = 0", "the setting 'deadline_ms' is wrong", "MUSTER_DEADLINE_MS"),
        ("fleet = ", "is not TOML", ""),
    ],
)
def test_a_wrong_setting_is_named(keep_settings, tmp_path, text, message, hint):
    (tmp_path / "none.toml").write_text(text)

    with pytest.raises(BadSettings) as caught:
        load_settings()

    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_every_public_name_is_there():
    import muster

    assert all(getattr(muster, name) is not None for name in muster.__all__)


CUT = "a head\n[… cut here; the whole text, 40000 bytes, is the attachment output.txt]"


@pytest.mark.parametrize("text", ["short", CUT])
async def test_an_answer_is_whole_however_it_travelled(memory_stage, text):
    whole = await memory_stage.muster.attach(b"the whole text", name="output.txt")
    ids = {"task_id": new_task_id(), "trace_id": new_trace_id(), "attempt": 1}
    result = TaskResult(**ids, status=State.COMPLETED, output=Output(text=text), attachments=(whole,))

    assert await memory_stage.muster.answer(result) == ("short" if text == "short" else "the whole text")


@pytest.mark.redis
async def test_a_configured_pool_takes_work_before_its_workers_come(conductor_redis, keep_settings):
    settings = keep_settings.model_copy(
        update={"redis_url": conductor_redis.url, "fleet": "pools", "pools": {"gpu": 1}}
    )
    async with Muster.connect(settings) as muster:
        handle = await muster.submit(**{**FIELDS, "pool": "gpu"})

        assert (await muster.record(handle.task_id)).pool == "gpu"
        with pytest.raises(Refused, match="there is no pool 'gpo'"):
            await muster.submit(**{**FIELDS, "pool": "gpo"})


async def test_a_request_that_was_kept_for_later_is_stamped_when_it_is_handed_over(any_stage):
    kept = task_request(**FIELDS).model_copy(update={"created_at_ms": 0})

    handle = await any_stage.muster.submit(kept)

    assert (await any_stage.muster.request(handle.task_id)).created_at_ms > 0


POET = AgentCard(name="poet", mode="primary", pool="explore")


def test_agents_of_a_commit_are_known_to_those_who_work_on_it():
    workers = [
        WorkerCard(worker="w2", pool="x", slots=1, projects=(ProjectCards(tenant="ann", commit="c1", agents=(POET,)),)),
        *CARDS,
    ]

    assert agent_named("poet", workers, commit="c1", tenant="ann") == POET
    for tenant, commit in (("ann", ""), ("ann", "c2"), ("ben", "c1"), ("", "c1"), ("", "")):
        with pytest.raises(UnknownName, match="no agent 'poet'"):
            agent_named("poet", workers, commit=commit, tenant=tenant)
    mine = POET.model_copy(update={"pool": "build"})
    assert (
        agent_named("poet", workers, commit="c1", tenant="ann", project=[mine]) == mine
    )  # who has read the files knows better


@pytest.mark.parametrize(("setting", "expected"), [("", "build"), ("poet", "poet")])
def test_who_does_a_goal_that_names_nobody(setting, expected):
    assert default_agent(setting, CARDS, project=[POET]).name == expected


def test_without_build_the_first_that_people_start_does_it():
    others = [WorkerCard(worker="w", pool="x", slots=1, agents=(POET, CARDS[0].agents[1]))]

    assert default_agent("", others) == POET
    with pytest.raises(UnknownName, match="no agent that people start"):
        default_agent("", [])


@pytest.mark.parametrize(
    ("setting", "why"), [("explore", "is a subagent"), ("ghost", "is hidden"), ("nobody", "there is no agent")]
)
def test_a_default_agent_that_people_do_not_start_is_an_error_of_the_setting(setting, why):
    ghost = AgentCard(name="ghost", mode="primary", pool="build", hidden=True)

    with pytest.raises(UnknownName, match=f"the setting default_agent: .*{why}"):
        default_agent(setting, CARDS, project=[ghost])
