"""Batches over HTTP: the document as it stands in, its end as another program reads it, and what may not be asked."""

from __future__ import annotations

import asyncio
import json
import tomllib

import pytest
import yaml

from orchestrator.api.reach import Reach
from orchestrator.batch.request import BatchParams
from orchestrator.batch.spec import Repository
from orchestrator.errors import BadInput
from orchestrator.publication.settings import ForgeSettings
from orchestrator.submit import params_of
from repo.errors import RepoError
from repo.pointed import commit_at
from repo.remotes import pinned_environment

pytestmark = pytest.mark.redis

FILES = {"src/a.py": "old\n", "src/b.py": "old\n", "tests/t.py": "assert\n"}
TOML = {"Content-Type": "application/toml"}
HANGS_S = 60.0  # only bounds a hang


@pytest.fixture
async def text(api, batch_text) -> str:
    """The usual batch, over a repository that was sent as a bundle."""
    given = await api.stage.repository(FILES)
    where = f'bundle = "{given.bundle}"\nbase = "{given.base}"\nname = "demo"'
    return batch_text.replace('path = "."', where)


async def submitted(api, text: str, **options) -> dict:
    status, told = await api.call("POST", "/v1/batches", who="submitter", data=text, headers=TOML, **options)
    assert status in (200, 201), told
    return told


async def ended(api, text: str) -> str:
    """A batch from its document to its end, followed by its events; its id."""
    async with api.stage.orchestrator(), api.stage.workers():
        told = await submitted(api, text)
        path = f"{api.url}/v1/traces/{told['trace_id']}/events"
        async with api.session.get(path, headers=api.auth("viewer")) as stream:
            assert "event: end" in await stream.text()
    return told["task_id"]


async def test_a_batch_goes_from_its_document_to_its_reports(api, text):
    seen = await api.call("POST", "/v1/batches/preview", who="submitter", data=text, headers=TOML)
    task_id = await ended(api, text)
    status = await api.call("GET", f"/v1/batches/{task_id}/status", who="viewer")
    forms = {
        form: await api.call("GET", f"/v1/batches/{task_id}/report", who="viewer", params={"format": form})
        for form in ("json", "markdown", "junit", "sarif", "jsonl", "pdf")
    }
    again = await submitted(api, text)
    other = text.replace("new", "newer").replace('glob = "src/*.py"', 'glob = "src/a.py"')
    diff = await api.call("POST", f"/v1/batches/{task_id}/diff", who="submitter", data=other, headers=TOML)
    overlaps = await api.call("GET", f"/v1/batches/{task_id}/overlaps", who="viewer")
    retried = await api.call("POST", f"/v1/batches/{task_id}/retry", who="submitter")

    assert (seen[0], seen[1]["repositories"][0]["shards"]) == (200, ["src/a.py", "src/b.py"])
    assert (status[0], status[1]["state"], status[1]["name"]) == (200, "completed", "modernise")
    assert status[1]["tasks"] == {"done": 4}
    assert forms["json"][1]["repositories"][0]["verified"] is True
    assert "modernise" in forms["markdown"][1] and forms["junit"][1].startswith("<?xml")
    assert forms["sarif"][1]["version"] == "2.1.0"
    assert [json.loads(line)["key"] for line in forms["jsonl"][1].splitlines()[:2]] == ["src/a.py", "src/b.py"]
    assert (forms["pdf"][0], forms["pdf"][1]["hint"][:6]) == (422, "known:")
    assert again == {"task_id": task_id, "trace_id": status[1]["trace_id"], "existing": True}
    assert (diff[1]["same"], diff[1]["gone"]) == (["demo:src/a.py"], ["demo:src/b.py"])
    assert overlaps == (200, {"demo": []})
    assert (retried[0], "nothing that failed" in retried[1]["title"]) == (422, True)


async def test_what_failed_is_done_again_by_one_who_asks_twice(api, text):
    def fail(_task, _files):
        raise api.stage.builders.fails("no")

    api.stage.builders.edit = fail
    task_id = await ended(api, text)
    api.stage.builders.edit = api.stage.builders.modernise
    first, second = [await api.call("POST", f"/v1/batches/{task_id}/retry", who="submitter") for _ in range(2)]
    waiting = await api.call("GET", f"/v1/batches/{first[1]['task_id']}/report", who="viewer")
    running = await api.call("POST", f"/v1/batches/{first[1]['task_id']}/retry", who="submitter")
    async with api.stage.orchestrator(), api.stage.workers():
        [result] = [one async for one in api.stage.muster.results([first[1]["task_id"]])]

    assert (first[0], second[0], second[1]["task_id"]) == (201, 200, first[1]["task_id"])
    assert (waiting[0], running[0]) == (409, 409)
    assert result.errors == () and result.output.structured["verified"] is True


async def test_one_document_is_the_same_in_three_languages_and_is_its_callers_tenants(api, text):
    values = tomllib.loads(text)
    handles = [
        await submitted(api, text),
        (await api.call("POST", "/v1/batches", who="admin", json=values))[1],
        (await api.call("POST", "/v1/batches", who="admin", data=yaml.safe_dump(values),
                        headers={"Content-Type": "application/yaml; charset=utf-8"}))[1],
    ]  # fmt: skip
    theirs = await api.call("POST", "/v1/batches", who="stranger", json=values)
    keyed = [
        await api.call("POST", "/v1/batches", who="admin", json=values, headers={"Idempotency-Key": "n1"})
        for _ in range(2)
    ]

    assert len({one["task_id"] for one in handles}) == 1
    request = await api.stage.muster.request(handles[0]["task_id"])
    assert (request.tenant, request.sender) == ("default", "api:submitter")
    assert params_of(BatchParams, request).repositories[0].base == values["repositories"][0]["base"]
    other = await api.stage.muster.request(theirs[1]["task_id"])
    assert (theirs[0], other.tenant, other.task_id != request.task_id) == (201, "elsewhere", True)
    assert ([status for status, _ in keyed], keyed[0][1]["task_id"]) == ([201, 200], keyed[1][1]["task_id"])
    assert keyed[0][1]["task_id"] != request.task_id
    headers = {"Idempotency-Key": "n1"}
    status, problem = await api.call(
        "POST", "/v1/batches", who="admin", json={**values, "name": "another"}, headers=headers
    )
    assert (status, keyed[0][1]["task_id"] in problem["title"]) == (422, True)


WRONG = {
    "no batch": ({}, "name: it is missing"),
    "a folder of the server": ({"repositories": [{"path": "/etc"}]}, "repositories[0].path names files of the server"),
    "a list of the server": ({"repositories": [{"list": "/etc/passwd"}]}, "repositories[0].list names files"),
    "a file of shards": ({"shards": {"files_from": "/etc/passwd"}}, "shards.files_from names a file of the server"),
    "a machine inside": ({"repositories": [{"url": "https://127.0.0.1/x.git"}]}, "there is no public host 127.0.0.1"),
    "one that only looks public": ({"repositories": [{"url": "https://[::ffff:10.0.0.1]/x"}]}, "no public host"),
    "the server's keys": ({"repositories": [{"url": "git@git.example.com:a/b.git"}]}, "is not an https address"),
    "a local address": ({"repositories": [{"url": "file:///srv/x.git"}]}, "is not an https address"),
    "plain HTTP": ({"repositories": [{"url": "http://git.example.com/x.git"}]}, "is not an https address"),
    "a forge that nobody has": ({"repositories": [{"organisation": "a", "forge": "f"}]}, "there is no forge 'f'"),
    "another's failures": ({"shards": {"failures_of": "0" * 8}}, "shards.failures_of: "),
    "a misspelt key": ({"shrads": {}}, "the batch: unknown key 'shrads'"),
    "a bundle that is not there": (
        {"repositories": [{"bundle": "sha256:" + "0" * 64, "name": "x", "base": "a" * 40}]}, "sha256:0000",
    ),
    "half a bundle": ({"repositories": [{"bundle": "sha256:" + "0" * 64}]}, "a `bundle` needs a `name`"),
    "half a character": ({"name": "\ud800"}, "half a character"),
    "a zero byte": ({"repositories": [{"url": "https://x/a.git", "base": "a\0b"}]}, "a zero byte"),
    "no end of money": ({"limits": {"budget_usd": 1e300}}, "limits.budget_usd"),
}  # fmt: skip


async def test_what_may_not_be_asked_is_a_sentence_with_a_hint_and_no_task(api, text):
    values = tomllib.loads(text)
    for name, (changes, said) in WRONG.items():
        body = {} if changes == {} else {**values, **changes}
        for path in ("/v1/batches", "/v1/batches/preview"):
            status, problem = await api.call("POST", path, who="submitter", json=body)
            assert status in (404, 422) and said in problem["title"], (name, problem)
    status, problem = await api.call("POST", "/v1/batches", who="submitter", json={**values, "shards": {"glob": "x/*"}})
    assert (status, "matches nothing" in problem["title"] or "no file" in problem["title"]) == (422, True), problem

    assert await api.stage.muster.tasks() == []


LAUGHS = "a: &a {x: 1}\n" + "".join(
    f"{b}: &{b} {{<<: [*{a}, *{a}]}}\n" for a, b in zip("abcdefg", "bcdefgh", strict=True)
)


@pytest.mark.parametrize(
    ("media", "body", "said"),
    [
        ("application/toml", "x = " + "[" * 100_000, "is not TOML"),
        ("application/toml", 'name = "x', "is not TOML"),
        ("application/toml", ".".join(["a"] * 8000) + " = 1", "more than 100 parts"),
        ("application/toml", "\n[[" + " . ".join(['"!"', "'a b'", "c"] * 40) + "]]", "more than 100 parts"),
        ("application/toml", "x = {y = 1, " + ".".join(["a"] * 200) + " = 1}", "more than 100 parts"),
        ("application/yaml", LAUGHS, "YAML aliases"),
        ("application/yaml", "[" * 20_000, "100 brackets are open"),
        ("application/yaml", "a: b\n" * 20_000, "larger than 65536 bytes"),
        ("application/json", "[" * 100_000, "is not JSON"),
        ("application/json", b"\xff\xfe", "not UTF-8"),
        ("text/html", "<p>", "is no text/html"),
    ],
)
async def test_a_document_that_means_harm_is_refused(api, media, body, said):
    headers = {"Content-Type": media}
    status, problem = await api.call("POST", "/v1/batches/preview", who="submitter", data=body, headers=headers)

    assert (status, said in problem["title"]) == (422, True), problem
    assert len(problem["title"]) < 500


async def test_another_tenants_bundle_is_known_by_who_has_it_and_its_failures_by_nobody_else(api, text):
    api.stage.builders.edit = lambda *_: (_ for _ in ()).throw(api.stage.builders.fails("no"))
    theirs = await ended(api, text)
    values = tomllib.loads(text)
    base = values["repositories"][0]["base"]
    _, junk = await api.call("POST", "/v1/blobs", who="stranger", data=b"no bundle at all")
    guessed = {**values, "repositories": [{"bundle": junk["ref"], "name": "demo", "base": base}]}
    failures = {**values, "shards": {"failures_of": theirs}}

    refused = await api.call("POST", "/v1/batches/preview", who="stranger", json=guessed)
    hidden = await api.call("POST", "/v1/batches/preview", who="stranger", json=failures)
    own = await api.call("POST", "/v1/batches/preview", who="submitter", json=failures)

    assert refused[0] >= 400 and "src/a.py" not in json.dumps(refused[1])
    assert (hidden[0], "src/a.py" in json.dumps(hidden[1])) == (422, False)
    assert own[1]["repositories"][0]["shards"] == ["src/a.py", "src/b.py"]


async def test_a_forge_lends_its_token_to_the_tenants_that_it_names():
    forge = ForgeSettings(kind="gitea", url="https://git.example.com/api/v1", token_env="PATH", tenants=("team",))
    repository = Repository(url="https://git.example.com/team/app.git")
    allowed = await Reach({"ours": forge}, "team")(repository)
    operator = await Reach({"ours": forge}, None)(repository)

    assert (allowed.credential, operator.credential) == ("ours", "ours")
    elsewhere = Repository(url="https://elsewhere.example.com/x.git", forge="ours")
    with pytest.raises(BadInput, match="is not where the forge 'ours' is"):
        await Reach({"ours": forge}, "team")(elsewhere)


async def test_of_anothers_forge_a_tenant_hears_what_it_would_if_there_were_none():
    at = {"inner": "https://10.1.2.3/api/v1", "public": "https://1.1.1.1/api/v1"}
    forges = {
        name: ForgeSettings(kind="gitea", url=url, token_env="PATH", tenants=("team",)) for name, url in at.items()
    }

    async def heard(forges: dict[str, ForgeSettings], **repository: str) -> str:
        try:
            remote = await Reach(forges, "other")(Repository(**repository))
        except BadInput as e:
            return f"{e} {e.hint}"
        return f"{remote.url} {remote.credential}"

    for asked in (
        {"url": "https://10.1.2.3/team/app.git"},
        {"url": "https://1.1.1.1/team/app.git"},
        {"url": "ssh://git@10.1.2.3/team/app.git"},
        {"url": "https://10.1.2.3/team/app.git", "forge": "inner"},
        {"url": "https://1.1.1.1/team/app.git", "forge": "public"},
    ):
        assert await heard(forges, **asked) == await heard({}, **asked)


async def test_git_goes_to_the_address_that_was_looked_at():
    met: asyncio.Queue[bytes] = asyncio.Queue()

    async def meet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        met.put_nowait(await reader.read(1))
        writer.close()

    server = await asyncio.start_server(meet, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    with pytest.raises(RepoError):
        url = f"https://pinned.invalid:{port}/x.git"
        await commit_at(url, "", env=pinned_environment("pinned.invalid", port, "127.0.0.1"))
    server.close()

    assert met.get_nowait() == b"\x16"  # a TLS handshake begins


async def test_one_tenants_slow_fetches_keep_no_place_from_another(api):
    api.app.state.batch_places["default"] = asyncio.Semaphore(0)
    asked = {"data": "name = 1", "headers": TOML}
    async with asyncio.timeout(HANGS_S):
        status, _ = await api.call("POST", "/v1/batches/preview", who="stranger", **asked)

    assert status == 422


async def test_of_two_forges_at_a_host_the_work_goes_by_the_one_it_names_and_may_use():
    def forge(*tenants: str) -> ForgeSettings:
        return ForgeSettings(kind="gitea", url="https://git.example.com/api/v1", token_env="PATH", tenants=tenants)

    forges = {"theirs": forge("other"), "ours": forge("team"), "second": forge("team")}
    url = "https://git.example.com/team/app.git"
    first = await Reach(forges, "team")(Repository(url=url))
    named = await Reach(forges, "team")(Repository(url=url, forge="second"))

    assert (first.credential, named.credential) == ("ours", "second")
    with pytest.raises(BadInput, match="this tenant has no forge 'theirs'"):
        await Reach(forges, "team")(Repository(url=url, forge="theirs"))


@pytest.mark.parametrize("forge", ["", "inner"])
async def test_a_preview_tells_nothing_of_a_forge_of_anothers(api, text, forge):
    inner = ForgeSettings(
        kind="gitea", url="https://10.1.2.3/api/v1", token_env="MUSTER_TEST_NO_SUCH", tenants=("team",)
    )
    publish = {"branch": "muster/x", "to": "request", "remote": "https://10.1.2.3/team/app.git", "forge": forge}
    server = api.app.state.muster
    told = []
    for forges in ({"inner": inner}, {}):
        server.settings = server.settings.model_copy(update={"forges": forges})
        document = {**tomllib.loads(text), "publish": publish}
        told.append(await api.call("POST", "/v1/batches/preview", who="submitter", json=document))

    assert told[0] == told[1] and "not known" in json.dumps(told[0])
