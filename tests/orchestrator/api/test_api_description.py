"""The API does what its description says, for input that nobody would think of."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from orchestrator.api.rates import Rates

pytestmark = pytest.mark.redis

OPTIONS = (
    *("--phases", "coverage"),
    *("--generation-deterministic", "--no-shrink", "--no-color"),  # the same input at each run: some 250 calls
    # no description says whether an agent or a task of that name is there; and "0" is taken for false
    *("--exclude-checks", "positive_data_acceptance,negative_data_rejection,ensure_resource_availability"),
)


async def test_the_api_answers_as_its_description_says(api, tmp_path: Path):
    api.app.state.rates = Rates(per_s=1e6, burst=1e6)
    program = Path(sys.executable).parent / "schemathesis"
    header = f"Authorization: {api.auth('admin')['Authorization']}"
    words = (program, "run", f"{api.url}/openapi.json", "--header", header, *OPTIONS)
    done = await asyncio.create_subprocess_exec(
        *map(str, words), cwd=tmp_path, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    told, _ = await done.communicate()

    assert done.returncode == 0, told.decode()[-20_000:]


@pytest.mark.parametrize("trace_id", ["x", "0" * 32, "z" * 32, "%00", "-" * 500])
async def test_what_cannot_be_a_trace_is_not_there(api, trace_id):
    for path in (f"/v1/traces/{trace_id}", f"/v1/traces/{trace_id}/budget", f"/v1/traces/{trace_id}/events"):
        assert (await api.call("GET", path))[0] == 404
    assert (await api.call("GET", f"/v1/tasks?trace={trace_id}"))[0] == 404


async def test_a_method_that_a_route_has_not_is_told_which_it_has(api):
    async with api.session.delete(f"{api.url}/v1/tasks", headers=api.auth("admin")) as response:
        assert (response.status, response.content_type) == (405, "application/problem+json")
        assert response.headers["Allow"] == "GET, POST"
