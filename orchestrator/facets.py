"""What a connection offers beside tasks. Each is loaded when it is asked for: most programs need none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .records import Records

if TYPE_CHECKING:
    from .batch.client import Batches


class Facets:
    @property
    def batches(self: Records) -> Batches:
        """One change over many files or repositories."""
        from .batch.client import Batches

        return Batches(self)
