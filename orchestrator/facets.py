"""What a connection offers beside tasks. Each is loaded when it is asked for: most programs need none of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .records import Records

if TYPE_CHECKING:
    from .batch.client import Batches
    from .evaluation.client import Evals
    from .publication.client import Publications


class Facets:
    @property
    def batches(self: Records) -> Batches:
        """One change over many files or repositories."""
        from .batch.client import Batches

        return Batches(self)

    @property
    def evals(self: Records) -> Evals:
        """Suites of cases with gates, tried by models, agents and prompts, and compared."""
        from .evaluation.client import Evals

        return Evals(self)

    @property
    def publications(self: Records) -> Publications:
        """What was made, on its way to a remote: with the forges' tokens of these settings, in this process."""
        from .publication.client import Publications, Published

        return Publications(self, Published.of(self.settings).publisher)
