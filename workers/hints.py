"""What to try next, for keys that people misspell."""

from __future__ import annotations

from collections.abc import Collection

from envelope.near import close_names


def nearest(key: str, known: Collection[str], *, called: str = "known keys") -> str:
    """The known key that was probably meant, else all of them.

    >>> nearest("slotz", ["model", "slots"])
    "did you mean 'slots'?"
    """
    near = close_names(key, known, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"{called}: {', '.join(known)}"
