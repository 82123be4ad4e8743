"""How alike two lines are. Pure."""

from __future__ import annotations

# Of longer lines only equality counts: no model misremembers a minified file in a useful way.
MAX_COMPARED_CHARS = 2000


def similarity(one: str, other: str) -> float:
    """1 for equal lines, 0 for lines without a letter in common place.

    >>> similarity("abcd", "abxd")
    0.75
    """
    if one == other:
        return 1.0
    longest = max(len(one), len(other))
    return 0.0 if longest > MAX_COMPARED_CHARS else 1 - distance(one, other) / longest


def distance(one: str, other: str) -> int:
    """Levenshtein's: the fewest letters to insert, drop or change.

    Hyyrö's bit-parallel form: a column of the usual table is held as two integers, the bits of `up` and `down` saying
    where a cell is one more or one less than the cell above it.
    """
    if not one or not other:
        return len(one) + len(other)
    positions: dict[str, int] = {}
    for index, letter in enumerate(one):
        positions[letter] = positions.get(letter, 0) | 1 << index
    every = (1 << len(one)) - 1
    last = 1 << (len(one) - 1)
    up, down, result = every, 0, len(one)
    for letter in other:
        equal = positions.get(letter, 0)
        diagonal = (((equal & up) + up) ^ up) | equal | down
        right_up, right_down = (down | ~(diagonal | up)) & every, up & diagonal
        result += bool(right_up & last) - bool(right_down & last)
        right_up, right_down = (right_up << 1 | 1) & every, right_down << 1 & every
        vertical = equal | down
        up, down = (right_down | ~(vertical | right_up)) & every, right_up & vertical
    return result
