"""The batches of examples/batches, as they stand, on small repositories and with a scripted model."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripted import scripted_model

pytestmark = [pytest.mark.docker, pytest.mark.redis, pytest.mark.acceptance]

EXAMPLES = Path(__file__).parents[3] / "examples" / "batches"
STORE = "def fetch_rows(count):\n    return list(range(count))\n\n\nclass Store(object):\n    pass\n"
OLD_AND_NEW = "def load_rows(count):\n    return list(range(count))\n\n\nfetch_rows = load_rows\n"
TEST = "from store import fetch_rows\n\n\ndef test_rows():\n    assert fetch_rows(2) == [0, 1]\n"
USER = "import store\n\n\ndef total():\n    return sum(store.fetch_rows(3))\n"


@pytest.fixture(scope="module")
def fleet_environment() -> Iterator[dict[str, str]]:
    with scripted_model(EXAMPLES / "model.yaml") as environment:
        yield environment


@pytest.fixture
def desk(fleet_desk):
    for example in EXAMPLES.glob("*.toml"):
        shutil.copy(example, fleet_desk.home)
    fleet_desk.repository("store", {"store.py": STORE, "test_store.py": TEST})
    for name in ("billing", "report"):
        files = {
            "store.py": OLD_AND_NEW,
            "use.py": USER,
            "test_use.py": "from use import total\n\n\ndef test(): assert total() == 3\n",
        }
        fleet_desk.repository(name, files)
    return fleet_desk


def content(desk, branch: str, repository: str, file: str) -> str:
    return desk.git("show", f"{branch}:{file}", repository=desk.home / repository)


def test_the_examples_do_what_they_say(desk):
    modernised = desk.muster("batch", "run", "modernise.toml")
    renamed = desk.muster("batch", "run", "rename-api.toml")
    hinted = desk.muster("batch", "run", "type-hints.toml")

    assert (modernised.exit_code, renamed.exit_code, hinted.exit_code) == (0, 0, 0), (
        modernised.stderr + renamed.stderr + hinted.stderr
    )
    assert all("✔ done and verified" in done.stderr for done in (modernised, renamed, hinted))
    assert "class Store:" in content(desk, "muster/modernise", "store", "store.py")

    branch = "muster/rename-fetch-rows"
    assert content(desk, branch, "store", "store.py").startswith("def load_rows(count)")  # by the agent
    assert "from store import load_rows" in content(desk, branch, "store", "test_store.py")  # by the codemod
    assert all("store.load_rows(3)" in content(desk, branch, name, "use.py") for name in ("billing", "report"))

    hints = content(desk, "muster/type-hints", "store", "store.py")
    assert "def fetch_rows(count: int) -> list[int]:" in hints and "List" not in hints  # the agent, then ruff
