"""Repositories by path, address, list and organisation: real git over HTTP, and a forge's list, on loopback."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest
from forge_descriptions import Description

from orchestrator.batch.file import load_batch
from orchestrator.batch.plan import planned
from orchestrator.batch.report import BatchReport, RepositoryReport
from orchestrator.batch.request import BatchParams
from orchestrator.cli.batch_submit import submitted, tell_moved
from orchestrator.errors import BadBatchFile, BadInput
from orchestrator.publication.errors import ForgeDown
from orchestrator.publication.settings import ForgeSettings
from orchestrator.submit import params_of
from repo.errors import CommitMissing, RepoError, RepositoryMissing, SourceRefused

TOKEN = "canary-token-51f0"
BATCH = """
name = "b"
repositories = [{repositories}]
shards = {{ whole = true }}
steps = [{{ recipe = ["true"] }}]
"""
LISTED = ("alpha-service", "beta-service", "tool", "old-service")
PATHS = {"/orgs/acme/repos": "github or gitea", "/groups/acme/projects": "gitlab"}


@dataclass
class Server:
    """git repositories below /git, to be read with a token, and the lists of three forges, two to a page.

    `listed`: their paths below /git, or an entry as it stands.
    """

    root: Path
    url: str = ""
    listed: tuple[object, ...] = LISTED
    asked: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)  # what the forge's own description does not have


class Handler(SimpleHTTPRequestHandler):
    def __init__(self, server: Server, *arguments, **named) -> None:
        self.ours = server
        super().__init__(*arguments, directory=str(server.root), **named)

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        if not self.headers.get("Authorization"):
            self.send_error(401)
        elif parts.path.startswith("/git/"):
            super().do_GET()
        elif parts.path in PATHS:
            self._list(int(parse_qs(parts.query)["page"][0]))
        else:
            self.send_error(404)

    def _list(self, page: int) -> None:
        self.ours.asked.append(self.path)
        path, query = urlsplit(self.path).path, dict(parse_qsl(urlsplit(self.path).query))
        kind = "gitlab" if path.startswith("/groups/") else "gitea" if "limit" in query else "github"
        operation = Description(kind).operation("GET", path)
        assert operation is not None
        names = self.ours.listed[2 * page - 2 : 2 * page]
        told = operation.filled([self._entry(name, kind) for name in names if isinstance(name, str)])
        self.ours.odd += [*operation.faults_of_request(query, None), *operation.faults_of_answer(200, told)]
        content = json.dumps(told if len(told) == len(names) else names).encode()
        self.send_response(200)
        if page * 2 < len(self.ours.listed):
            self.send_header("Link", f'<{self.ours.url}{self.path}>; rel="next"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _entry(self, path: str, kind: str) -> dict[str, object]:
        url, name = f"{self.ours.url}/git/{path}.git", path.rpartition("/")[2]
        called = {"path": name, "http_url_to_repo": url} if kind == "gitlab" else {"name": name, "clone_url": url}
        return {**called, "archived": name.startswith("old")}

    def log_message(self, *_words) -> None:
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory) -> Iterator[Server]:
    ours = Server(tmp_path_factory.mktemp("served"))
    for name in LISTED:
        bare(ours.root / "git" / f"{name}.git", tmp_path_factory.mktemp(name))
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, ours)) as http:
        ours.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield ours
        http.shutdown()
        thread.join()


def bare(target: Path, work: Path) -> None:
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@localhost", "-c", "init.defaultBranch=main")
    (work / "a.py").write_text("x\n")
    target.parent.mkdir(exist_ok=True)
    for words in (
        ("init", "-q"),
        ("add", "-A"),
        ("commit", "-qm", "first"),
        ("tag", "v1"),
        ("clone", "-q", "--bare", ".", str(target)),
        ("-C", str(target), "update-server-info"),
    ):
        subprocess.run(["git", *identity, *words], cwd=work, check=True)


@pytest.fixture
def look(server, keep_settings, tmp_path, monkeypatch):
    """What a batch of these repositories begins with."""
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)

    async def looked(repositories: str, kind: str = "github"):
        forges = {"ours": ForgeSettings(kind=kind, url=server.url, token_env="FORGE_TOKEN")}
        file = tmp_path / "b.toml"
        file.write_text(BATCH.format(repositories=repositories.replace("URL", server.url)))
        return await planned(load_batch(file), file, keep_settings.model_copy(update={"forges": forges}))

    return looked


@pytest.mark.parametrize("kind", ["github", "gitlab", "gitea"])
async def test_an_organisations_repositories_are_listed_page_after_page_and_fetched(look, server, kind):
    server.asked.clear()

    plan = await look('{ organisation = "acme", forge = "ours", only = "*-service" }', kind)

    assert len(server.asked) == 2 and server.odd == []
    assert [one.url for one in plan.spec.repositories] == [f"{server.url}/git/{n}.git" for n in LISTED[:2]]
    assert plan.folders == {}


async def test_an_address_is_fetched_at_its_tag_or_first_branch(look, server):
    plan = await look('{ url = "URL/git/tool.git" }, { url = "URL/git/tool.git", base = "v1", name = "again" }')

    first, again = plan.starts["tool"], plan.starts["again"]
    assert len(first.base) == 40 and first.base == again.base
    assert TOKEN not in (first.git_dir / "config").read_text()


async def test_a_fetched_repositorys_address_goes_along_for_its_publication(look, server, memory_stage, tmp_path):
    subprocess.run(["git", "clone", "-q", server.root / "git" / "tool.git", tmp_path / "here"], check=True)
    plan = await look('{ url = "URL/git/tool.git" }, { path = "here" }')
    handle = await submitted(memory_stage.muster, plan, memory_stage.muster.settings, None)

    given = params_of(BatchParams, await memory_stage.muster.request(handle.task_id)).repositories
    assert {each.name: each.url for each in given} == {"tool": f"{server.url}/git/tool.git", "here": ""}


async def test_what_is_called_alike_in_two_groups_keeps_both_and_has_a_name_of_its_own(look, server, monkeypatch):
    for group in ("web", "data"):
        link = server.root / "git" / group / "tool.git"
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(server.root / "git" / "tool.git")
    monkeypatch.setattr(server, "listed", ("web/tool", "alpha-service", "data/tool"))
    plan = await look('{ organisation = "acme", forge = "ours", only = "[at]*" }', "gitlab")
    one = await look('{ organisation = "acme", forge = "ours", only = "alpha*" }', "gitlab")

    assert list(plan.starts) == ["alpha-service", "git-data-tool", "git-web-tool"]
    assert plan.starts["git-web-tool"].url == f"{server.url}/git/web/tool.git"
    assert list(one.starts) == ["alpha-service"]


@pytest.mark.parametrize("entry", [{}, [], None, {"path": "a", "http_url_to_repo": None}])
async def test_a_list_in_an_odd_form_is_told(look, server, monkeypatch, entry):
    monkeypatch.setattr(server, "listed", (entry,))
    with pytest.raises(ForgeDown, match="in a form that is not known"):
        await look('{ organisation = "acme", forge = "ours" }', "gitlab")


PUBLISH = '[publish]\nbranch = "x"\nremote = "{}"\n'


@pytest.mark.parametrize(
    ("repositories", "remote", "is_right"),
    [
        ('{ path = "a" }', "https://git.example.com/a", True),
        ('{ path = "a" }, { path = "b" }', "https://git.example.com/a", False),
        ('{ path = "a" }, { path = "b" }', "upstream", True),
        ('{ list = "list.txt" }', "git@git.example.com:a/b.git", False),
        ('{ organisation = "acme", forge = "ours" }', "/srv/a.git", False),
    ],
)
def test_one_address_is_not_that_of_several_repositories(tmp_path, repositories, remote, is_right):
    file = tmp_path / "b.toml"
    file.write_text(BATCH.format(repositories=repositories) + PUBLISH.format(remote))
    (tmp_path / "list.txt").write_text("a\nb\n")

    if is_right:
        assert load_batch(file).publish.remote == remote
        return
    with pytest.raises(BadBatchFile, match="one address cannot be that of several") as told:
        load_batch(file)
    assert "leave it out" in told.value.hint


@pytest.mark.parametrize(
    ("repositories", "kind", "message"),
    [
        ('{ path = "nowhere" }', RepositoryMissing, "There is no folder"),
        ('{ url = "URL/git/none.git" }', RepositoryMissing, "none.git holds no repository that can be reached"),
        ('{ url = "URL/git/tool.git", base = "v2" }', CommitMissing, "tool.git has no branch or tag 'v2'"),
        ('{ organisation = "acme", forge = "theirs" }', BadInput, "there is no forge 'theirs' in the settings"),
        ('{ organisation = "acme", forge = "ours", only = "x*" }', BadInput, "lists no repository of acme"),
        ('{ url = "https://me:secret@127.0.0.1/x.git" }', BadBatchFile, "carries a password or a token"),
        ('{ path = "a", url = "https://127.0.0.1/b" }', BadBatchFile, "say one of `path`, `url`, `list`"),
        ('{ organisation = "acme" }', BadBatchFile, "needs the `forge` that lists it"),
        ('{ url = "http://127.0.0.1:1/x.git" }', SourceRefused, "uses a protocol that is not allowed here"),
    ],
)
async def test_what_cannot_be_started_from_is_said_in_one_sentence(look, repositories, kind, message):
    with pytest.raises(kind) as caught:
        await look(repositories)

    assert message in str(caught.value)
    assert caught.value.hint
    assert "secret" not in str(caught.value)


async def test_a_token_that_is_not_welcome_is_said(look, server, monkeypatch):
    monkeypatch.setattr(Handler, "do_GET", lambda self: self.send_error(401))

    with pytest.raises(RepoError, match=r"tool\.git does not let us in") as caught:
        await look('{ url = "URL/git/tool.git" }')
    assert TOKEN not in f"{caught.value} {caught.value.hint} {caught.value.__cause__}"


async def test_a_list_names_paths_and_addresses(look, server, tmp_path):
    subprocess.run(["git", "clone", "-q", server.root / "git" / "tool.git", tmp_path / "here"], check=True)
    (tmp_path / "list.txt").write_text(f"here\n\n{server.url}/git/beta-service.git\n")

    plan = await look('{ list = "list.txt" }')

    assert list(plan.starts) == ["here", "beta-service"]
    assert plan.folders == {"here": tmp_path / "here"}


async def test_a_base_that_moved_meanwhile_is_said(look, server, tmp_path, capsys):
    subprocess.run(["git", "clone", "-q", server.root / "git" / "tool.git", tmp_path / "here"], check=True)
    plan = await look('{ path = "here" }, { path = "here", base = "v1", name = "fixed" }')
    report = BatchReport(
        name="b",
        repositories=tuple(
            RepositoryReport(name=name, base=start.base, commit=start.base) for name, start in plan.starts.items()
        ),
    )
    await tell_moved(plan, report)
    before = capsys.readouterr().err
    identity = ("-c", "user.name=tester", "-c", "user.email=tester@localhost")
    subprocess.run(["git", *identity, "commit", "-q", "--allow-empty", "-m", "x"], cwd=tmp_path / "here", check=True)
    await tell_moved(plan, report)

    assert before == ""
    told = capsys.readouterr().err
    assert "here has moved on from" in told
    assert "fixed has moved on" not in told
