"""The whole system as a user meets it: the `muster` command in processes of its own, on a real package, with nothing in
place of anything. Each test has its own state folder, and so a fleet of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from shell import ROOT, User, containers, demo


@pytest.fixture(scope="session")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's package, fetched and committed once."""
    folder = tmp_path_factory.mktemp("package")
    return demo.fetch_package(folder)


@pytest.fixture
def user(tmp_path: Path, package: Path) -> Iterator[User]:
    with _somebody(tmp_path, package) as someone:
        yield someone


@pytest.fixture(scope="module")
def module_user(tmp_path_factory: pytest.TempPathFactory, package: Path) -> Iterator[User]:
    """For what several tests of a module look at, and none changes."""
    with _somebody(tmp_path_factory.mktemp("somebody"), package) as someone:
        yield someone


@contextmanager
def _somebody(home: Path, package: Path) -> Iterator[User]:
    shutil.copytree(package, home / "more-itertools", symlinks=True)
    someone = User(home)
    batch = (ROOT / "examples" / "demo" / "batch.toml").read_text()
    (home / "batch.toml").write_text(batch.replace("../../.demo/", ""))
    yield someone
    someone.muster("down", timeout_s=60)
    assert containers(someone) == [], "a container was left behind"
