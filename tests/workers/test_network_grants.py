"""Network grants and credentials of a task, end to end: a worker, a sandbox, and servers on loopback with TLS."""

from __future__ import annotations

import json
import ssl
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiohttp import web

from envelope.errors import ErrorCode
from envelope.logs import configure
from envelope.messages import TaskInput, Workspace
from workers.errors import BadSettings
from workers.sandboxes.credentials import CredentialRow

pytestmark = [pytest.mark.redis, pytest.mark.docker]

SECRET = "open-sesame-8821"
# Loopback is what NO_PROXY names inside; here it stands for the operator's own network.
ASK = "no_proxy= NO_PROXY= python3 -c 'import sys, urllib.request as r; print(r.urlopen(sys.argv[1]).read().decode())' "
FULL = ("edit:**", "bash:**", "read:**")


class Forge:
    """A server of private repositories (git's plain files), and who asked it with what."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.place = ""
        self.keys: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        key = request.headers.get("PRIVATE-TOKEN", "")
        self.keys.append(key)
        if key != SECRET:
            return web.Response(status=401)
        file = self.root / request.match_info["path"]
        if file.is_dir():
            return web.Response(text=(file / "index.html").read_text(), content_type="text/html")
        return web.Response(body=file.read_bytes()) if file.is_file() else web.Response(status=404)


@pytest.fixture(scope="module")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "ca.pem",
         "-days", "2", "-subj", "/CN=forge", "-addext", "subjectAltName=IP:127.0.0.1"],
        cwd=folder, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    return folder


@pytest.fixture
async def forge(serve_pages: Callable, tls_files: Path, repository: Path, tmp_path: Path) -> Forge:
    bare = tmp_path / "served" / "repo.git"
    subprocess.run(["git", "clone", "--quiet", "--bare", str(repository), str(bare)], check=True)
    subprocess.run(["git", "-C", str(bare), "update-server-info"], check=True)
    forge = Forge(tmp_path / "served")
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(tls_files / "ca.pem", tls_files / "key.pem")
    forge.place = f"127.0.0.1:{await serve_pages(forge.answer, tls=tls)}"
    return forge


@pytest.fixture
def settings(forge: Forge, tls_files: Path, monkeypatch: pytest.MonkeyPatch) -> dict:
    monkeypatch.setenv("FORGE_TOKEN", SECRET)
    row = CredentialRow(
        host=forge.place, env="FORGE_TOKEN", header="PRIVATE-TOKEN: {secret}", ca_file=tls_files / "ca.pem"
    )
    return {"credentials": {"forge": row}, "network_private_addresses": {forge.place}}


@pytest.fixture
def logged(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[[], list[dict]]]:
    """What a worker's log holds by now: once, each line as a table."""

    def lines() -> list[dict]:
        return [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")]

    configure(level="info", json=True)
    yield lines
    configure(level="warning")


async def test_a_task_uses_a_credential_that_is_nowhere_to_be_found(start_hands, settings, forge, logged):
    hands = await start_hands(**settings)
    clone = (
        f"no_proxy= NO_PROXY= git clone --quiet https://{forge.place}/repo.git /tmp/repo && cat /tmp/repo/src/other.py"
    )
    look = "env; cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n'; grep -r sesame /run /tmp /home /workspace; true"
    request = hands.recipe(clone, look, auth_scope=(*FULL, "credential:forge"))
    result = await hands.result(request)
    logs = logged()

    assert result.errors == ()
    assert "X = 1" in result.output.structured["steps"][0]["output_tail"]
    assert SECRET in forge.keys and set(forge.keys) == {SECRET}
    used = [line for line in logs if line["event"] == "egress_allowed"]
    assert used[0]["used"] == "forge" and used[0]["request"] == "GET /repo.git/info/refs"
    events = await hands.events(request.trace_id)
    assert "sesame" not in (result.model_dump_json() + str(logs) + str(events)).replace("grep -r sesame", "")


async def test_pip_installs_from_a_private_index(start_hands, settings, forge):
    folder = forge.root / "simple" / "demo"
    folder.mkdir(parents=True)
    (folder / "index.html").write_text('<a href="demo-1.0-py3-none-any.whl">demo-1.0-py3-none-any.whl</a>')
    with zipfile.ZipFile(folder / "demo-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("demo.py", "WORD = 'from the forge'\n")
        for name, text in (
            ("METADATA", "Name: demo\nVersion: 1.0\n"),
            ("WHEEL", "Tag: py3-none-any\n"),
            ("RECORD", ""),
        ):
            version = "Metadata-Version: 2.1\n" if name == "METADATA" else "Wheel-Version: 1.0\n" * (name == "WHEEL")
            wheel.writestr(f"demo-1.0.dist-info/{name}", version + text)
    hands = await start_hands(**settings)
    install = (
        f"no_proxy= NO_PROXY= pip install -q --no-deps --target /tmp/x --index-url http://{forge.place}/simple demo"
    )

    commands = (f"{install} 2>&1", "PYTHONPATH=/tmp/x python3 -c 'import demo; print(demo.WORD)'")
    result = await hands.result(hands.recipe(*commands, auth_scope=(*FULL, "credential:forge")))

    assert "from the forge" in result.output.text, result.output.structured
    assert set(forge.keys) == {SECRET}


async def test_without_the_grant_the_same_host_is_refused_and_people_are_told(start_hands, settings, forge, logged):
    hands = await start_hands(**settings)
    request = hands.recipe(f"{ASK} http://{forge.place}/", auth_scope=(*FULL, "network:elsewhere.example"))
    result = await hands.result(request)

    assert result.errors[0].code is ErrorCode.RECIPE_FAILED
    assert forge.keys == []
    [warning] = await hands.events(request.trace_id, "warning")
    assert f"{forge.place} may not be reached from this sandbox" in warning.message
    assert any(line["event"] == "egress_refused" and line["task_id"] == request.task_id for line in logged())


async def test_a_network_grant_reaches_its_host_and_adds_nothing(start_hands, settings, serve_pages):
    seen: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(str(request.headers))
        return web.Response(text="plain page")

    place = f"127.0.0.1:{await serve_pages(answer)}"
    hands = await start_hands(**{**settings, "network_private_addresses": {place}})
    request = hands.recipe(f"{ASK} http://{place}/", auth_scope=(*FULL, f"network:{place}", "credential:forge"))
    result = await hands.result(request)

    assert "plain page" in result.output.text
    assert len(seen) == 1 and SECRET not in seen[0]


@pytest.mark.parametrize(
    ("tenants", "is_reached"), [({}, False), ({"private_addresses_tenants": ("elsewhere",)}, True)]
)
async def test_a_private_address_is_reached_by_tasks_of_its_tenants_alone(
    start_hands, serve_pages, tenants, is_reached
):
    async def answer(request: web.Request) -> web.Response:
        return web.Response(text="internal page")

    place = f"127.0.0.1:{await serve_pages(answer)}"
    hands = await start_hands(network_private_addresses={place}, **tenants)
    request = hands.recipe(f"{ASK} http://{place}/", tenant="elsewhere", auth_scope=(*FULL, f"network:{place}"))
    result = await hands.result(request)

    assert ("internal page" in str(result.output.structured)) is is_reached


async def test_a_private_address_is_refused_whatever_is_granted_unless_the_operator_names_it(
    start_hands, settings, forge
):
    hands = await start_hands(**{**settings, "network_private_addresses": frozenset()})
    scope = (*FULL, "credential:forge", f"network:{forge.place}", "network:169.254.169.254")
    commands = (f"{ASK} http://{forge.place}/ 2>&1 || {ASK} http://169.254.169.254/ 2>&1",)
    request = hands.recipe(*commands, auth_scope=scope)
    result = await hands.result(request)

    assert "403" in result.output.structured["steps"][0]["output_tail"]
    told = " ".join(event.message for event in await hands.events(request.trace_id, "warning"))
    assert told.count("is a private address") == 2
    assert forge.keys == []


@pytest.mark.parametrize(
    ("grant", "words"),
    [("credential:nobody", "no credentials named 'nobody'"), ("credential:twin", "are for one host")],
)
async def test_a_credential_that_cannot_be_used_ends_the_task_before_it_begins(start_hands, settings, grant, words):
    rows = settings["credentials"] | {"twin": settings["credentials"]["forge"]}
    hands = await start_hands(**{**settings, "credentials": rows})
    result = await hands.result(hands.recipe("true", auth_scope=(*FULL, "credential:forge", grant)))

    assert result.errors[0].code is ErrorCode.BAD_INPUT
    assert words in result.errors[0].message


async def test_a_worker_without_a_secret_does_not_start(start_hands):
    with pytest.raises(BadSettings, match="'forge' has no secret"):
        await start_hands(credentials={"forge": CredentialRow(host="git.example.com", env="MUSTER_TEST_NO_SUCH")})


async def test_a_private_repository_is_fetched_by_name_and_no_other_task_finds_it(
    start_hands, settings, forge, repository, tmp_path
):
    hands = await start_hands(**settings)
    head = subprocess.check_output(["git", "-C", str(repository), "rev-parse", "HEAD"], text=True).strip()
    private = Workspace(url=f"https://{forge.place}/repo.git", credentials="forge", base=head)

    result = await hands.result(hands.recipe("cat src/other.py; git config --list", workspace=private))
    without = await hands.result(hands.recipe("true", workspace=private.model_copy(update={"credentials": ""})))
    elsewhere = private.model_copy(update={"url": "https://elsewhere.example/repo.git"})
    other = await hands.result(hands.recipe("true", workspace=elsewhere))
    strangers = await hands.result(hands.recipe("true", workspace=private, tenant="team-b"))
    named = private.model_copy(update={"credentials": "nobodys"})
    nobodys = await hands.result(hands.recipe("true", workspace=named, tenant="team-b"))
    inner = private.model_copy(update={"credentials": "", "public": True})
    public = await hands.result(hands.recipe("true", workspace=inner))

    assert result.errors == () and "X = 1" in result.output.text
    assert without.errors[0].code is ErrorCode.REPOSITORY
    assert "is for https://" in other.errors[0].message
    told = [(one.errors[0].message, one.errors[0].hint) for one in (strangers, nobodys)]
    assert told[0] == (told[1][0].replace("nobodys", "forge"), told[1][1])
    assert told[0][0] == "this worker has no credentials named 'forge' for the tenant 'team-b'"
    assert "there is no public host" in public.errors[0].message
    kept = subprocess.run(["grep", "-rl", SECRET, str(tmp_path / "state")], capture_output=True, text=True, check=False)
    assert kept.stdout == ""


TELLS = """
rules:
  - when: {prompt_contains: delegate, turn: 1}
    reply: {tool_calls: [{name: task, arguments: {description: x, prompt: fetch it, subagent_type: general}}]}
  - when: {prompt_contains: fetch it, turn: 1}
    reply: {tool_calls: [{name: bash, arguments: {command: "COMMAND"}}]}
  - {reply: {text: "${result.0}"}}
"""


async def test_a_subagent_has_what_its_caller_has_and_each_is_told_of_it(start_agents, settings, forge):
    script = TELLS.replace("COMMAND", f"{ASK} http://{forge.place}/repo.git/HEAD".replace('"', '\\"'))
    hands, server = await start_agents(script, **settings)
    scope = ("bash:**", "task:**", "credential:forge")
    request = hands.request(agent="build", auth_scope=scope, input=TaskInput(prompt="delegate"))

    result = await hands.result(request)

    assert "refs/heads/main" in result.output.text
    assert forge.keys == [SECRET]
    assert server.log.requests == 4
    for body in server.log.bodies:
        assert f"http://{forge.place}/ (write http:" in str(body) and SECRET not in str(body)
