"""Mirrors that many fetch into: whose they are, and what a remote does to them in the course of time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from repo.checkout import checkout
from repo.errors import CommitMissing, RepositoryMissing
from repo.mirror import mirror_of


async def test_an_address_cannot_be_written_so_that_it_finds_anothers_mirror(user: Any, tmp_path: Path):
    url, commit = user.root.as_uri(), user.commit({"a": "1\n"})
    private = await mirror_of(tmp_path, url=url, commit=commit, shared_by=["credential", "ours"], protocols=("file",))
    assert await private.has(commit)

    for strange in (f"{url} by ours", f'{url}", "credential", "ours', f'["url", "{url}", "credential", "ours"]'):
        with pytest.raises(RepositoryMissing):
            await mirror_of(tmp_path, url=strange, commit=commit, protocols=("file",))
    for shared_by in ([], ["public"], ["credential", "others"], ["credential"]):
        other = await mirror_of(tmp_path, url=url, commit=commit, shared_by=shared_by, protocols=("file",))
        assert other != private


async def test_a_branch_that_becomes_a_folder_stands_in_nobodys_way(user: Any, tmp_path: Path):
    user.commit({"a": "1\n"})
    user.git("branch", "feature")
    fetch = partial(mirror_of, tmp_path, url=user.root.as_uri(), protocols=("file",))
    await fetch(commit="main")
    user.git("branch", "--move", "feature", "feature/x")
    newer = user.commit({"a": "2\n"})

    assert await (await fetch(commit="main")).resolve("main") == newer
    user.git("branch", "-D", "feature/x")
    with pytest.raises(CommitMissing):
        await fetch(commit="feature/x")


async def test_a_branch_goes_before_a_tag_of_its_name(user: Any, tmp_path: Path):
    older = user.commit({"a": "1\n"})
    newer = user.commit({"a": "2\n"})
    user.git("tag", "main", older)
    mirror = await mirror_of(tmp_path, url=user.root.as_uri(), commit="main", protocols=("file",))

    assert await mirror.resolve("main") == newer
    assert await mirror.resolve("refs/tags/main") == older


@pytest.fixture
def files(tmp_path: Path) -> Iterator[tuple[str, threading.Event]]:
    """A server that knows no protocol of git's: its address, and what makes it fail at an object that is no commit."""
    is_well, given = threading.Event(), 0

    class Files(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            nonlocal given
            given += "/objects/" in self.path and "/info/" not in self.path
            if given > 2 and not is_well.is_set():
                self.send_error(503)
                return
            super().do_GET()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(tmp_path / "served")))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/", is_well
    server.shutdown()
    server.server_close()


async def test_what_a_fetch_left_that_broke_off_is_not_taken_for_whole(user: Any, tmp_path: Path, files: Any):
    url, is_well = files
    commit = user.commit({"s/a": "1\n", "b": "2\n"})
    user.git("clone", "--quiet", "--bare", str(user.root), str(tmp_path / "served"))
    user.git("--git-dir", str(tmp_path / "served"), "update-server-info")
    fetch = partial(mirror_of, tmp_path / "cache", url=url, commit=commit, protocols=("http",))
    with pytest.raises(RepositoryMissing):
        await fetch()
    is_well.set()

    folder = await checkout(await fetch(), commit, tmp_path / "cache")
    assert (folder / "s/a").read_text() == "1\n"
