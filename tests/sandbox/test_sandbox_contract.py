"""Every driver keeps what `sandbox.contract` says of them all."""

from __future__ import annotations

import pytest

from sandbox.contract import CASES, cases_for, staged
from sandbox.driver import DockerDriver

pytestmark = pytest.mark.docker


@pytest.mark.parametrize("name", CASES)
async def test_docker_keeps_the_contract(driver: DockerDriver, image: str, name: str):
    async with staged(driver, image) as stage:
        await CASES[name](stage)


async def test_docker_claims_all_of_it(driver: DockerDriver):
    assert cases_for(driver) == list(CASES)
