"""Skills at addresses: what a server may say, and what it may not."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from orchestrator.errors import OrchestratorError
from orchestrator.skill_pages import skill_at
from repo.folder import Entry

PAGES = {
    "/one/SKILL.md": b"hum",
    "/two/index.json": b'{"skills": [{"name": "a"}, {"name": "b", "files": ["SKILL.md", "more/x.txt"]}], "version": 2}',
    "/two/a/SKILL.md": b"of a",
    "/two/b/SKILL.md": b"of b",
    "/two/b/more/x.txt": b"x",
    "/only/index.json": b'{"skills": [{"name": "a"}]}',
    "/only/a/SKILL.md": b"the only one",
    "/none/index.json": b'{"skills": []}',
    "/up/index.json": b'{"skills": [{"name": "a", "files": ["SKILL.md", "../../x"]}]}',
    "/out/index.json": b'{"skills": [{"name": "..", "files": ["SKILL.md"]}]}',
    "/abroad/index.json": b'{"skills": [{"name": "a", "files": ["https:", "//elsewhere.example/x"]}]}',
    "/odd/index.json": b"<html>" * 1000,
    "/large/SKILL.md": b"x" * (1024 * 1024 + 1),
    "/many/index.json": b'{"skills": [{"name": "a", "files": [%s]}]}' % b",".join(b'"f%d"' % n for n in range(201)),
}


@pytest.fixture
async def address() -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/away/SKILL.md":
            return web.Response(status=302, headers={"Location": "https://elsewhere.example/SKILL.md"})
        found = PAGES.get(request.path)
        return web.Response(status=404) if found is None else web.Response(body=found)

    app = web.Application()
    app.router.add_get("/{path:.*}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.mark.parametrize(
    ("path", "name", "files", "source"),
    [
        ("/one/SKILL.md", "", [("SKILL.md", b"hum")], "/one/SKILL.md"),
        ("/two/index.json", "a", [("SKILL.md", b"of a")], "/two/index.json#a"),
        ("/two/index.json", "b", [("SKILL.md", b"of b"), ("more/x.txt", b"x")], "/two/index.json#b"),
        ("/only/index.json", "", [("SKILL.md", b"the only one")], "/only/index.json#a"),
    ],
)
async def test_a_file_and_one_of_a_list_are_found(address: str, path: str, name: str, files: list, source: str):
    found = await skill_at(f"{address}{path}", name)

    assert found.entries == tuple(Entry(*file) for file in files)
    assert found.source == f"{address}{source}"


@pytest.mark.parametrize(
    ("path", "name", "message", "hint"),
    [
        ("/missing/SKILL.md", "", "answers 404", "check the address"),
        ("/away/SKILL.md", "", "leads elsewhere", "name it: https://elsewhere.example/SKILL.md"),
        ("/large/SKILL.md", "", "is larger than 1048576 bytes", "choose another skill"),
        ("/one/SKILL.md", "x", "--folder is of repositories and lists", "leads to a SKILL.md"),
        ("/two/index.json", "", "lists 2 skills", "--folder a"),
        ("/two/index.json", "c", "lists no skill 'c'", "known: a, b"),
        ("/none/index.json", "", "lists 0 skills", "--folder NAME"),
        ("/up/index.json", "a", "is no list of skills", "its form"),
        ("/out/index.json", "..", "is no list of skills", "its form"),
        ("/abroad/index.json", "a", "is no list of skills", "its form"),
        ("/odd/index.json", "a", "is no list of skills", "its form"),
        ("/many/index.json", "a", "is no list of skills", "its form"),
    ],
)
async def test_what_cannot_be_brought_is_one_sentence_and_a_hint(
    address: str, path: str, name: str, message: str, hint: str
):
    with pytest.raises(OrchestratorError) as refused:
        await skill_at(f"{address}{path}", name)

    assert message in refused.value.message and hint in refused.value.hint
    assert len(str(refused.value)) < 300


async def test_a_password_in_an_address_and_nobody_at_it_are_said():
    with pytest.raises(OrchestratorError, match="holds a user or a password"):
        await skill_at("http://me:sesame@127.0.0.1:1/SKILL.md", "")
    with pytest.raises(OrchestratorError, match=r"http://127\.0\.0\.1:1/SKILL\.md cannot be reached: "):
        await skill_at("http://127.0.0.1:1/SKILL.md", "")
