"""Which driver is used, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.choice import choose_driver
from sandbox.errors import EngineUnavailable

pytestmark = pytest.mark.docker


async def test_auto_takes_docker_where_its_engine_answers_and_says_so(tmp_path: Path, owner: str):
    said: list[str] = []
    driver = await choose_driver("auto", tmp_path, owner, say=said.append)
    await driver.close()

    assert driver.name == "docker"
    assert len(said) == 1 and said[0].startswith("sandboxes by docker: Docker engine ")


async def test_auto_without_an_engine_takes_bubblewrap_and_says_why(
    tmp_path: Path, owner: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    said: list[str] = []
    driver = await choose_driver("auto", tmp_path, owner, say=said.append)
    await driver.close()

    assert driver.name == "bubblewrap"
    assert len(said) == 1 and "bubblewrap 0." in said[0] and "control groups v" in said[0] and "engine" in said[0]


@pytest.mark.parametrize("name", ["docker", "bubblewrap", "auto"])
async def test_nothing_else_does_where_a_driver_or_a_runtime_was_named(
    tmp_path: Path, owner: str, monkeypatch: pytest.MonkeyPatch, name
):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(EngineUnavailable) as refused:
        await choose_driver(name, tmp_path, owner, runtime="runsc")
    assert refused.value.hint


async def test_without_its_programs_there_is_no_bubblewrap(tmp_path: Path, owner: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailable, match="bwrap is not installed") as refused:
        await choose_driver("bubblewrap", tmp_path, owner)
    assert "package bubblewrap" in refused.value.hint


async def test_a_runtime_that_the_engine_has_not_is_refused_with_those_that_it_has(tmp_path: Path, owner: str):
    with pytest.raises(EngineUnavailable, match="no runtime kata") as refused:
        await choose_driver("docker", tmp_path, owner, runtime="kata")
    assert "runc" in refused.value.hint
