"""Where symbols stand in Python source, hostile source included."""

from __future__ import annotations

import pytest

from workers.references.symbols import MAX_SOURCE_BYTES, lines_of

SOURCE = b"""\
LIMIT: int = 3
other = 4

try:
    import fast
except ImportError:
    async def fallback():
        inner = 1
        return inner


@decorated
class Greeter:
    name = "x"

    @property
    def greeting(self):
        def helper():
            pass
        return helper
"""


@pytest.mark.parametrize(
    ("symbol", "lines"),
    [
        ("LIMIT", (1, 1)),
        ("other", (2, 2)),
        ("fallback", (7, 9)),
        ("Greeter", (12, 20)),
        ("Greeter.name", (14, 14)),
        ("Greeter.greeting", (16, 20)),
        ("Greeter.greeting.helper", (18, 19)),
        ("inner", None),
        ("helper", None),
        ("Greeter.nobody", None),
        ("LIMIT.x", None),
    ],
)
def test_a_symbol_stands_where_it_is_defined(symbol, lines):
    assert lines_of(SOURCE, symbol) == lines


@pytest.mark.parametrize(
    "hostile", [b"(" * 200_000, b"if x:\n " * 50_000, b"\xff\0def a" * 1000, b"x" * (MAX_SOURCE_BYTES + 1)]
)
def test_hostile_source_is_just_source_without_the_symbol(hostile):
    assert lines_of(hostile, "nobody") is None


def test_broken_source_still_has_its_symbols():
    assert lines_of(b"def a(:\n  )\n\ndef b():\n    return 1\n", "b") == (4, 5)
