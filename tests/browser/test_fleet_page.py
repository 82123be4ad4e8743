"""The fleet, in a browser."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_fleet_is_usable_by_all(console, visit, axe, picture, on_a_phone, scheme):
    page = await visit("/", color_scheme=scheme)

    await page.get_by_role("heading", name="Pools").wait_for()
    assert await axe(page) == []
    await picture(page, f"fleet-{scheme}")
    await on_a_phone(page)
