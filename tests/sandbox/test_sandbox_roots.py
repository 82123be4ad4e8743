"""What a bubblewrap sandbox stands on."""

from __future__ import annotations

from pathlib import Path

import pytest

from sandbox.errors import ImageMissing
from sandbox.image import DEFAULT_IMAGE
from sandbox.roots import Roots
from sandbox.setup import image_id_of


def test_who_named_no_image_has_this_hosts_programs(tmp_path: Path):
    """So `auto` works with and without an engine, by the same settings."""
    roots = Roots(tmp_path / "images", tmp_path / "sandboxes", tmp_path / "roots")
    assert roots.layers(DEFAULT_IMAGE) == roots.layers("host") == [Path("/")]


async def test_an_image_that_is_missing_is_told_with_what_would_work(tmp_path: Path):
    roots = Roots(tmp_path / "images", tmp_path / "sandboxes", tmp_path / "roots")
    with pytest.raises(ImageMissing, match="no image debian:13") as refused:
        await image_id_of(roots, "debian:13")
    assert "MUSTER_IMAGE" in refused.value.hint and "sandbox build" not in refused.value.hint
