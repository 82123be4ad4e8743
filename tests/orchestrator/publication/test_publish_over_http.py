"""Publication over HTTP and from Python: who may, where it goes, and that a tenant has no more than its own."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
import uvicorn

from orchestrator.api.app import create_app
from orchestrator.api.tokens import Role, Tokens
from orchestrator.batch.file import parse_batch
from orchestrator.batch.request import batch_request
from orchestrator.client import Muster
from orchestrator.submit import RepositoryInput

pytestmark = pytest.mark.redis
PUBLISH = '\n[publish]\nbranch = "muster/modernise"\nto = "request"\nunverified = true\nmax_open = 5\n'
BRANCH = "muster/modernise"


@dataclass
class Server:
    """One API on a forge of the tenant `default`, and the batch that it is to publish."""

    url: str
    secrets: dict[str, str]
    session: aiohttp.ClientSession
    hub: Any
    muster: Muster
    task_id: str = ""
    given: RepositoryInput | None = None

    async def call(self, method: str, path: str, who: str = "approver", **said: Any) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.secrets[who]}"}
        async with self.session.request(method, self.url + path, headers=headers, **said) as response:
            return response.status, await response.json()

    async def publish(self, who: str = "approver", **wanted: Any) -> tuple[int, Any]:
        return await self.call("POST", f"/v1/tasks/{self.task_id}/publications", who, json=wanted)


@pytest_asyncio.fixture
async def server(redis_stage, make_desk, batch_text, tmp_path) -> AsyncIterator[Server]:
    desk = await make_desk("github")
    (desk.user / "src").mkdir()
    (desk.user / "src" / "a.py").write_text("old\nassert\n")
    identity = ("-c", "user.name=t", "-c", "user.email=t@localhost")
    for words in (["add", "-A"], ["commit", "-q", "-m", "base"], ["push", "-q", str(desk.hub.bare), "HEAD:main"]):
        subprocess.run(["git", *identity, "-C", str(desk.user), *words], check=True)
    forges = {"hub": desk.hub.settings(tenants=("default",))}
    muster = Muster(redis_stage.transport, redis_stage.muster.settings.model_copy(update={"forges": forges}))
    where = await muster.pack(desk.user)
    given = RepositoryInput(name="app", bundle=where.bundle or "", base=where.base, url=desk.hub.remote)
    request = batch_request(parse_batch(batch_text + PUBLISH), [given], settings=muster.settings)
    result = await redis_stage.run(request)
    tokens = Tokens(redis_stage.transport.registry)
    secrets = {role.value: await tokens.create(role.value, role, "default") for role in Role}
    secrets["stranger"] = await tokens.create("stranger", Role.ADMIN, "elsewhere")
    secrets["everybody's"] = await tokens.create("all", Role.ADMIN, "*")
    serving = uvicorn.Server(uvicorn.Config(create_app(muster), port=0, log_config=None, lifespan="off"))
    task = asyncio.create_task(serving.serve())
    while not serving.started:
        await asyncio.wait({task}, timeout=0.01)
    port = serving.servers[0].sockets[0].getsockname()[1]
    async with aiohttp.ClientSession() as session:
        yield Server(f"http://127.0.0.1:{port}", secrets, session, desk.hub, muster, result.task_id, given)
    serving.should_exit = serving.force_exit = True
    await task


async def test_a_batch_is_published_once_seen_commented_on_and_closed(server):
    first, again = await server.publish(), await server.publish()
    listed = await server.call("GET", "/v1/publications", "viewer")
    said = [
        await server.call("POST", f"/v1/tasks/{server.task_id}/publications/comment", json={"text": "Please look."})
        for _ in range(2)
    ]
    closed = await server.call("POST", f"/v1/tasks/{server.task_id}/publications/close")
    synced = await server.call("POST", "/v1/publications/sync")

    [one] = first[1]
    assert (first[0], one["stage"], one["where"]) == (200, "draft", f"{server.hub.url}/team/app/1")
    assert (again, server.hub.created, server.hub.tip()) == (first, 1, one["commit"])
    assert listed == (200, first[1])
    assert said == [(200, {"said": 1}), (200, {"said": 0})]
    assert [each["stage"] for each in (*closed[1], *synced[1])] == ["closed", "closed"]
    noted = [entry.fields for entry in await server.muster.transport.audit.latest(10)]
    assert ("api:approver", "publish", server.task_id) in [(n["actor"], n["action"], n["subject"]) for n in noted]


async def test_who_may_not_publish_does_not_and_another_tenant_sees_nothing(server):
    roles = {who: (await server.publish(who))[0] for who in ("viewer", "submitter", "stranger")}
    assert roles == {"viewer": 403, "submitter": 403, "stranger": 404}
    assert server.hub.reviews == []
    await server.publish()
    for method, path in (("GET", "/v1/publications"), ("POST", "/v1/publications/sync")):
        assert await server.call(method, path, "stranger") == (200, [])


async def test_who_sees_all_tenants_publishes_by_no_forge_that_is_not_for_the_tasks_own(
    server, redis_stage, batch_text
):
    _, [own] = await server.publish("everybody's")
    spec = parse_batch(batch_text + PUBLISH.replace("modernise", "others"))
    request = batch_request(spec, [server.given], settings=server.muster.settings, tenant="elsewhere")
    server.task_id = (await redis_stage.run(request)).task_id
    _, [others] = await server.publish("everybody's")

    assert (own["stage"], others["stage"], server.hub.created) == ("draft", "refused", 1)
    assert "this tenant may use no forge at" in others["reason"]


ELSEWHERE = [
    ({"to": "branch"}, "branch is made by the command line alone"),
    ({"to": "patches"}, "patches is made by the command line alone"),
    ({"to": "push", "remote": "/srv/other.git"}, "goes back to where it came from"),
    ({"to": "push", "remote": "https://elsewhere.example.com/a/b"}, "goes back to where it came from"),
    ({"forge": "other"}, "there is no forge 'other' in the settings"),
]


async def test_a_change_goes_where_it_came_from_and_nowhere_else(server):
    for wanted, why in ELSEWHERE:
        status, [told] = await server.publish(**wanted)

        assert (status, told["stage"], why in told["reason"]) == (200, "refused", True), told
        assert told["hint"] and server.hub.reviews == []


async def test_what_came_as_a_bundle_goes_to_a_forge_of_its_tenant(server, redis_stage, batch_text):
    given = server.given.model_copy(update={"url": ""})
    request = batch_request(
        parse_batch(batch_text + PUBLISH), [given], settings=server.muster.settings, idempotency_key="a bundle"
    )
    server.task_id = (await redis_stage.run(request)).task_id
    for remote, why in (
        ("", "nobody knows where this repository is"),
        ("upstream", "nobody knows where this repository is"),
        (str(server.hub.bare), "is not an https address"),
        ("git@git.example.com:a/b.git", "is not an https address"),
        ("https://git.example.com/a/b.git", "this tenant may use no forge at git.example.com"),
    ):
        _, [told] = await server.publish(remote=remote)
        assert (told["stage"], why in told["reason"], server.hub.reviews) == ("refused", True, []), told

    _, [gone] = await server.publish(remote=server.hub.remote)
    assert (gone["stage"], len(server.hub.reviews)) == ("draft", 1)


async def test_what_nobody_has_proved_goes_when_the_caller_says_so_and_not_the_document(
    server, redis_stage, batch_text
):
    text = batch_text.replace('[gate]\ncommands = ["run-tests"]\n', "").replace("modernise", "unproved", 1)
    request = batch_request(parse_batch(text + PUBLISH), [server.given], settings=server.muster.settings)
    server.task_id = (await redis_stage.run(request)).task_id

    _, [kept] = await server.publish()
    made = len(server.hub.reviews)
    _, [gone] = await server.publish(unverified=True)

    assert (kept["stage"], made, gone["stage"]) == ("not published", 0, "draft")


async def test_a_forge_that_is_down_holds_it_and_sync_goes_on(server, says):

    server.hub.faults.extend([says(429, retry_after="3600")])
    _, [held] = await server.publish()
    _, [gone_on] = await server.call("POST", "/v1/publications/sync")

    assert (held["stage"], gone_on["stage"], server.hub.created) == ("held", "draft", 1)


async def test_from_python_it_is_the_same(server):
    [told] = await server.muster.publications.publish(server.task_id, draft=False)

    assert (told.stage, server.hub.tip()) == ("open", told.commit)
    assert [each.tenant for each in server.muster.publications.published.known()] == ["default"]
