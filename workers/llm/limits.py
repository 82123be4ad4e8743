"""How much a model takes and gives."""

from __future__ import annotations

from dataclasses import dataclass, replace

# What a history leaves of a window for a reply, whatever more a model could say.
USUAL_REPLY_TOKENS = 32_000


@dataclass(frozen=True, slots=True)
class ModelLimits:
    """A model's window in tokens. `input`: a limit of its own for what is sent, where it has one. 0: not known."""

    context: int = 0
    output: int = 0
    input: int | None = None

    def with_room(self) -> ModelLimits:
        """The same with half of the window at most for a reply, so that a history has the other half.

        Of many small models (337 of the 3,032 in litellm 1.83's list, 2026-11) nobody knows more than that no reply is
        longer than their window, and some are listed without any limit.

        >>> ModelLimits(8_192, 8_192).with_room(), ModelLimits(200_000, 64_000).with_room()
        (ModelLimits(context=8192, output=4096, input=None), ModelLimits(context=200000, output=64000, input=None))
        """
        half = self.context // 2
        is_small = 0 < half < USUAL_REPLY_TOKENS
        return replace(self, output=min(self.output or half, half)) if is_small else self


UNKNOWN = ModelLimits()
