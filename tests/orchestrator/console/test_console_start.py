"""Starting from a form: what may be chosen, what it would cost, once for one form, and only for who may."""

from __future__ import annotations

import re
import subprocess
from html import unescape

import aiohttp
import pytest

from envelope.agents import AgentCard, ModelPrice, WorkerCard
from orchestrator.api.console.given import base_in
from orchestrator.api.problems import Problem
from orchestrator.submit import GoalParams, params_of

pytestmark = pytest.mark.redis

LOOKS = ("read:**", "grep:**")
CARDS = (
    AgentCard(name="plan", mode="primary", pool="build", auth_scope=LOOKS, description="plans <i>first</i>"),
    AgentCard(name="explore", mode="subagent", pool="explore", auth_scope=LOOKS),
    AgentCard(name="title", mode="primary", pool="build", hidden=True),
)


async def offer(console, *, priced: bool = True) -> None:
    price = ModelPrice(input_microusd=1_000_000, output_microusd=5_000_000) if priced else None
    card = WorkerCard(worker="w2", pool="explore", slots=1, agents=CARDS, model="house/model", price=price)
    await console.stage.transport.announce(card, ttl_s=600)


async def reviewed(console, who: str = "submitter", *, csrf: str | None = None, **fields):
    """The page that says what it would be; `bundle` and `files` are files."""
    form = aiohttp.FormData()
    for name, value in {"csrf": csrf or (await console.get("/console/", who=who)).csrf, "key": "k1", **fields}.items():
        if isinstance(value, bytes):
            form.add_field(name, value, filename=f"{name}.bin")
        else:
            form.add_field(name, value)
    return await console._call("POST", "/console/start", who, data=form)


def hidden(page) -> dict[str, str]:
    goal = re.search(r'<textarea name="goal"[^>]*>(.*?)</textarea>', page.text, re.DOTALL)
    key = re.search(r'name="key" value="([^"]*)"', page.text)
    assert goal and key, page.text
    return {"goal": unescape(goal[1]), "key": key[1]}


async def test_the_form_offers_whom_people_start_and_marks_who_only_looks(console):
    await offer(console)
    page = await console.get("/console/start", who="submitter")
    agents = re.findall(r'name="agent" value="(\w+)"', page.text)

    assert agents == ["build", "plan"]
    assert re.findall(r'data-mention="(\w+)"', page.text) == ["explore"]
    assert page.text.count("read-only</span>") == 1
    assert "Tools: read, edit, bash" in page.text
    assert "plans &lt;i&gt;first&lt;/i&gt;" in page.text


async def test_one_form_starts_once_and_leads_to_the_trace(console):
    await offer(console)
    page = await reviewed(console, goal="mend it 👩‍👩‍👧", budget="2.50", deadline="10m", files=b"a screenshot")
    assert (await console.stage.muster.tasks()) == []
    assert "about $0.0" in page.text and "at $2.50 it waits for somebody" in page.text and "house/model" in page.text
    first, second = [await console.post("/console/start/go", hidden(page), who="submitter") for _ in range(2)]

    [task] = await console.stage.muster.tasks()
    assert (first.status, first.headers["Location"]) == (303, f"/console/traces/{task.trace_id}")
    assert second.headers["Location"] == first.headers["Location"]
    request = await console.stage.muster.request(task.task_id)
    assert (request.input.prompt, request.budget.max_cost_microusd) == ("mend it 👩‍👩‍👧", 2_500_000)
    assert (request.deadline_ms, request.sender, request.tenant) == (600_000, "console:submitter", "default")
    assert [await console.stage.transport.blobs.get(one.blob) for one in request.attachments] == [b"a screenshot"]
    assert params_of(GoalParams, request).agent == "build"


async def test_a_repository_comes_in_a_bundle_from_what_was_checked_out(console, tmp_path):
    given = await console.stage.repository({"a.py": "assert\n"})
    content = await console.stage.transport.blobs.get(given.bundle)
    page = await reviewed(console, goal="mend it", gate="run-tests\n\npytest -q", setup="make", bundle=content)
    await console.post("/console/start/go", hidden(page), who="submitter")
    [task] = await console.stage.muster.tasks()
    request = await console.stage.muster.request(task.task_id)

    assert (request.workspace.bundle, request.workspace.base) == (given.bundle, given.base)
    assert (request.workspace.setup, request.workspace.trusted) == (("make",), "")
    assert params_of(GoalParams, request).gate == ("run-tests", "pytest -q")


WRONG = {
    "no goal": {},
    "no agent of that name": {"goal": "x", "agent": "nobody"},
    "an agent that nobody starts": {"goal": "x", "agent": "explore"},
    "no amount": {"goal": "x", "budget": "much"},
    "no length of time": {"goal": "x", "deadline": "soon"},
    "a gate without a repository": {"goal": "x", "gate": "pytest"},
    "a machine inside": {"goal": "x", "url": "https://127.0.0.1/x.git"},
    "a folder of the server": {"goal": "x", "url": "file:///etc"},
    "the server's keys": {"goal": "x", "url": "git@git.example.com:a/b.git"},
    "a way to plan that there is not": {"goal": "x", "plan": "twice"},
    "a bundle that is none": {"goal": "x", "bundle": b"MZ"},
}


async def test_what_cannot_be_started_is_a_sentence_and_starts_nothing(console):
    await offer(console)
    for name, fields in WRONG.items():
        page = await reviewed(console, **fields)
        assert page.status == 422, (name, page.text)
        assert "Traceback" not in page.text
    by_hand = {"goal": '{"goal": "x", "workspace": {"path": "/etc", "base": "' + "a" * 40 + '"}}', "key": "k"}
    assert (await console.post("/console/start/go", by_hand, who="submitter")).status == 422
    assert (await console.stage.muster.tasks()) == []


async def test_who_may_not_start_is_refused_before_anything_is_read(console):
    for who, status in (("viewer", 403), ("approver", 403)):
        assert (await console.get("/console/start", who=who)).status == status
        assert (await reviewed(console, who, goal="x")).status == status
    csrf = (await console.get("/console/", who="submitter")).csrf
    assert (await reviewed(console, "admin", csrf=csrf, goal="x")).status == 403
    assert (await reviewed(console, "nobody", csrf=csrf, goal="x")).status == 401
    assert (await console.stage.muster.tasks()) == []


async def test_no_price_is_said_to_be_none(console):
    await offer(console, priced=False)
    assert "no estimate" in (await reviewed(console, goal="x")).text


def test_a_bundle_says_where_it_begins(tmp_path):
    one, two = "1" * 40, "2" * 40
    head = f"# v2 git bundle\n{one} refs/heads/main\n{two} HEAD\n\nPACK".encode()
    assert (base_in(head), base_in(head, "main"), base_in(head, "3" * 40)) == (two, one, "3" * 40)
    for wrong in (head.replace(b"HEAD", b"refs/heads/x"), head.replace(b"bundle\n", b"bundle\n-" + b"3" * 40 + b"\n")):
        with pytest.raises(Problem):
            base_in(wrong)

    def git(*words: str) -> None:
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("-c", "user.name=t", "-c", "user.email=t@localhost", "commit", "-q", "--allow-empty", "-m", "first")
    git("bundle", "create", "all.bundle", "HEAD")
    done = subprocess.run(["git", "-C", str(tmp_path), "rev-parse", "HEAD"], capture_output=True, text=True, check=True)
    assert base_in((tmp_path / "all.bundle").read_bytes()) == done.stdout.strip()
