"""Forges on loopback: GitHub's, GitLab's and Gitea's APIs as their descriptions have them, and real git behind."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import pytest_asyncio
from aiohttp import web
from forge_descriptions import Description

from orchestrator.publication.address import read_address
from orchestrator.publication.body import Facts, block_of
from orchestrator.publication.book import Book, Publication, key_of
from orchestrator.publication.forges.http import Pace
from orchestrator.publication.publisher import Publisher
from orchestrator.publication.settings import ForgeSettings
from orchestrator.publication.terms import Form, Terms
from repo.bundle import bundle
from repo.mirror import Mirror, mirror_of

TOKEN = "canary-0123456789-token"
BASIC = base64.b64encode(f"muster:{TOKEN}".encode()).decode()
IDENTITY = ("-c", "user.name=ann", "-c", "user.email=ann@localhost", "-c", "init.defaultBranch=main")
KINDS = ("github", "gitlab", "gitea")
API = {"github": "/api/v3", "gitlab": "/api/v4", "gitea": "/api/v1"}
BRANCH = "muster/modernise"


def git(folder: Path, *words: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    done = subprocess.run(["git", *IDENTITY, "-C", str(folder), *words], capture_output=True, text=True, env=clean)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@dataclass
class Review:
    """A pull or merge request as a forge keeps it."""

    number: int
    title: str
    body: str
    head: str
    base: str
    state: str = "open"
    merged: bool = False
    draft: bool = False
    comments: list[str] = field(default_factory=list)
    fork: bool = False


Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


@dataclass
class Hub:
    """One forge with one repository, `team/app`. `faults`: what the next requests meet first; None lets one through."""

    kind: str
    root: Path
    url: str = ""
    reviews: list[Review] = field(default_factory=list)
    asked: list[tuple[str, str]] = field(default_factory=list)
    faults: list[Fault | None] = field(default_factory=list)
    look: Callable[[web.Request], None] = lambda _: None
    page_size: int = 50
    odd: list[str] = field(default_factory=list)  # what the forge's own description does not have

    def __post_init__(self) -> None:
        self.description = Description(self.kind)

    @property
    def bare(self) -> Path:
        return self.root / "team" / "app.git"

    @property
    def remote(self) -> str:
        return f"{self.url}/team/app.git"

    @property
    def created(self) -> int:
        return len([None for method, path in self.asked if method == "POST" and path.endswith(("/pulls", "_requests"))])

    def settings(self, **fields: Any) -> ForgeSettings:
        return ForgeSettings(kind=self.kind, url=f"{self.url}{API[self.kind]}", token_env="HUB_TOKEN", **fields)

    def tip(self, branch: str = BRANCH) -> str:
        return git(self.bare, "rev-parse", "--verify", f"refs/heads/{branch}")

    async def take(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path))
        self.look(request)
        fault = self.faults.pop(0) if self.faults else None
        answer = await fault(request) if fault else None
        return answer or await self._held(request, await self.answer(request))

    async def _held(self, request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
        """As the forge's description has it, with all that an answer must have beside what we know."""
        path = request.raw_path.partition("?")[0]
        if not path.startswith(API[self.kind]):
            return answer
        operation = self.description.operation(request.method, path.removeprefix(API[self.kind]))
        body = json.loads(await request.text() or "null")
        if operation is None:
            self.odd.append(f"{request.method} {path} is nothing that is asked")
            return answer
        self.odd += operation.faults_of_request(request.query, body)
        if not isinstance(answer, web.Response) or answer.status >= 300:
            return answer
        told = operation.filled(json.loads(answer.text or "null"))
        self.odd += operation.faults_of_answer(answer.status, told)
        return web.json_response(
            told, status=answer.status, headers={k: answer.headers[k] for k in ("Link",) if k in answer.headers}
        )

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if request.path.startswith("/team/app.git/"):
            return await self._git(request)
        scheme = {"gitea": "token"}.get(self.kind, "Bearer")
        if request.headers.get("Authorization") != f"{scheme} {TOKEN}":
            return web.json_response({"message": "Bad credentials"}, status=401)
        path = unquote(request.raw_path.partition("?")[0].removeprefix(API[self.kind]))
        prefix = "/projects/team/app" if self.kind == "gitlab" else "/repos/team/app"
        if not path.startswith(prefix):
            return web.json_response({"message": "Not Found"}, status=404)
        words = path.removeprefix(prefix).strip("/").split("/")
        return await self._api(request, [word for word in words if word])

    async def _api(self, request: web.Request, words: list[str]) -> web.Response:
        body = await request.json() if request.can_read_body else {}
        if len(words) > 1 and not 0 < int(words[1]) <= len(self.reviews):
            return web.json_response({"message": "Not Found"}, status=404)
        match request.method, words:
            case "GET", []:
                return web.json_response({"default_branch": "main"})
            case "GET", ["pulls" | "merge_requests"]:
                return self._page(request, [self._shown(each) for each in self._listed(request)])
            case "POST", ["pulls" | "merge_requests"]:
                return self._create(body)
            case "GET", ["pulls" | "merge_requests", number]:
                return web.json_response(self._shown(self.reviews[int(number) - 1]))
            case "PATCH" | "PUT", ["pulls" | "merge_requests", number]:
                review = self.reviews[int(number) - 1]
                review.body = body.get("body", body.get("description", review.body))
                if body.get("state") == "closed" or body.get("state_event") == "close":
                    review.state = "closed"
                return web.json_response(self._shown(review), status=201 if self.kind == "gitea" else 200)
            case "GET", [_, number, "comments" | "notes"]:
                told = [{"body": each} for each in self.reviews[int(number) - 1].comments]
                return web.json_response(told) if self.kind == "gitea" else self._page(request, told)
            case "POST", [_, number, "comments" | "notes"]:
                self.reviews[int(number) - 1].comments.append(body["body"])
                return web.json_response({"body": body["body"]}, status=201)
        return web.json_response({"message": "Not Found"}, status=404)

    def _listed(self, request: web.Request) -> list[Review]:
        query = request.query
        alive = query.get("state") in ("open", "opened")
        found = [each for each in reversed(self.reviews) if not alive or each.state == "open"]
        head = query.get("head", "").partition(":")[2] or query.get("source_branch", "")
        return [each for each in found if not head or each.head == head]

    def _page(self, request: web.Request, items: list[Any]) -> web.Response:
        size = min(self.page_size, int(request.query.get("per_page", request.query.get("limit", 30))))
        page = int(request.query.get("page", 1))
        more = len(items) > page * size
        link = {"Link": f'<{self.url}/next>; rel="next", <{self.url}/last>; rel="last"'} if more else {}
        return web.json_response(items[(page - 1) * size : page * size], headers=link)

    def _create(self, body: dict[str, Any]) -> web.Response:
        head, base = body.get("head") or body["source_branch"], body.get("base") or body["target_branch"]
        if any(each.head == head and each.state == "open" and not each.fork for each in self.reviews):
            status = 422 if self.kind == "github" else 409
            told: Any = {"message": ["Another open merge request already exists for this source branch: !1"]}
            if self.kind == "github":
                told = {"message": "Validation Failed", "errors": [{"message": "A pull request already exists for x."}]}
            if self.kind == "gitea":
                told = {"message": "pull request already exists for these targets"}
            return web.json_response(told, status=status)
        title = body["title"]
        draft = body.get("draft", False) or title.startswith(("Draft: ", "WIP: "))
        text = body.get("body", body.get("description", ""))
        self.reviews.append(Review(len(self.reviews) + 1, title, text, head, base, draft=draft))
        return web.json_response(self._shown(self.reviews[-1]), status=201)

    def _shown(self, review: Review) -> dict[str, Any]:
        sha = git(self.bare, "rev-parse", f"refs/heads/{review.head}") if not review.fork else "0" * 40
        at = f"{self.url}/team/app/{review.number}"
        if self.kind == "gitlab":
            state = "merged" if review.merged else {"open": "opened"}.get(review.state, review.state)
            return {
                "iid": review.number, "web_url": at, "state": state, "draft": review.draft, "title": review.title,
                "source_branch": review.head, "target_branch": review.base, "description": review.body, "sha": sha,
                "source_project_id": 2 if review.fork else 1, "target_project_id": 1,
            }  # fmt: skip
        owner = "stranger" if review.fork else "team"
        shown: dict[str, Any] = {
            "number": review.number, "html_url": at, "state": review.state, "title": review.title, "body": review.body,
            "head": {"ref": review.head, "sha": sha, "repo": {"full_name": f"{owner}/app"}},
            "base": {"ref": review.base},
        }  # fmt: skip
        if self.kind == "github":
            merged_at = "2026-11-22T10:00:00Z" if review.merged else None
            return shown | {"merged_at": merged_at, "draft": review.draft}
        return shown | {"merged": review.merged}

    async def _git(self, request: web.Request) -> web.Response:
        told = request.headers.get("Authorization", "").removeprefix("Basic ")
        if base64.b64decode(told).decode().partition(":")[2] != TOKEN:
            return web.Response(status=401, headers={"WWW-Authenticate": "Basic realm=x"})
        environment = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": str(self.root), "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": request.path, "QUERY_STRING": request.query_string, "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""), "REMOTE_USER": "muster", "REMOTE_ADDR": "::1",
            "GIT_PROTOCOL": request.headers.get("Git-Protocol", ""),
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            "git", "http-backend", env=environment, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE
        )
        out, _ = await process.communicate(await request.read())
        head, _, content = out.partition(b"\r\n\r\n")
        headers = dict(line.split(": ", 1) for line in head.decode().splitlines())
        status = int(headers.pop("Status", "200").split()[0])
        return web.Response(status=status, headers=headers, body=content)


def status(code: int, told: Any = None, **headers: str) -> Fault:
    async def answer(_: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(told or {"message": "no"}, status=code, headers=named)

    return answer


@dataclass
class Slept:
    """A pace that notes how long it was to wait, and goes on."""

    pauses: list[float] = field(default_factory=list)
    now_s: float = 1_763_800_000.0

    async def sleep(self, pause_s: float) -> None:
        self.pauses.append(pause_s)
        self.now_s += pause_s

    def pace(self, **fields: Any) -> Pace:
        return Pace(sleep=self.sleep, chance=lambda: 0.5, now_s=lambda: self.now_s, gap_s=0.0, **fields)


@dataclass
class Desk:
    """Somebody who publishes: a repository with changes to it, a book, and the publisher."""

    folder: Path
    user: Path
    hub: Hub
    slept: Slept
    base: str = ""

    @property
    def book(self) -> Book:
        return Book(self.folder / "publications")

    @property
    def publisher(self) -> Publisher:
        return Publisher(self.book, {"hub": self.hub.settings()}, self.slept.pace())

    def commit(self, text: str, parent: str = "main") -> str:
        git(self.user, "checkout", "-q", "--detach", parent)
        (self.user / "app.py").write_text(text)
        git(self.user, "commit", "-q", "-a", "-m", text)
        return git(self.user, "rev-parse", "HEAD")

    async def mirror(self, commit: str) -> Mirror:
        packed = self.folder / f"{commit}.bundle"
        await bundle(self.user, commit, packed)
        return await mirror_of(self.folder / "cache", bundle=packed, commit=commit)

    def wanted(self, commit: str, *, remote: str = "", branch: str = BRANCH, **terms: Any) -> Publication:
        asked = Terms.model_validate({"to": Form.REQUEST, **terms})
        place = remote or self.hub.remote
        key = key_of(read_address(place).repository, branch)
        base = git(self.user, "rev-parse", "main")
        return Publication(
            key=key, remote=place, forge="" if remote else "hub", path="team/app", branch=branch, terms=asked,
            task_id="0193", bundle="x.bundle", base=base, commit=commit, title="Modernise",
            body=block_of(key, Facts("0193", base, commit, verified=True)),
        )  # fmt: skip

    async def publish(self, commit: str, **terms: Any) -> Publication:
        return await self.publisher.publish(self.wanted(commit, **terms), await self.mirror(commit))

    def push_as_ann(self, text: str, onto: str) -> str:
        """A person changes the branch meanwhile."""
        theirs = self.commit(text, onto)
        git(self.user, "push", "-q", "--force", str(self.hub.bare), f"{theirs}:refs/heads/{BRANCH}")
        return theirs


MakeDesk = Callable[[str], Awaitable[Desk]]


@asynccontextmanager
async def desks(folder: Path) -> AsyncIterator[MakeDesk]:
    """Desks with forges that serve; the environment has to hold `TOKEN` as HUB_TOKEN. tests/browser has one, too."""
    runners: list[web.AppRunner] = []
    hubs: list[Hub] = []

    async def make(kind: str) -> Desk:
        user = folder / "user"
        user.mkdir()
        git(user, "init", "-q")
        (user / "app.py").write_text("first\n")
        git(user, "add", "-A")
        git(user, "commit", "-q", "-m", "first")
        hub = Hub(kind, folder / "hub")
        hubs.append(hub)
        git(folder, "clone", "-q", "--bare", str(user), str(hub.bare))
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", hub.take)
        runner = web.AppRunner(app)
        runners.append(runner)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        hub.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        return Desk(folder, user, hub, Slept())

    yield make
    for runner in runners:
        await runner.cleanup()
    assert [odd for hub in hubs for odd in hub.odd] == []


@pytest_asyncio.fixture
async def make_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[MakeDesk]:
    monkeypatch.setenv("HUB_TOKEN", TOKEN)
    async with desks(tmp_path) as make:
        yield make


@pytest_asyncio.fixture(params=KINDS)
async def desk(request: pytest.FixtureRequest, make_desk: MakeDesk) -> Desk:
    return await make_desk(request.param)


@pytest_asyncio.fixture
async def github(make_desk: MakeDesk) -> Desk:
    return await make_desk("github")


@pytest.fixture
def says() -> Callable[..., Fault]:
    return status
