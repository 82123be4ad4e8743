"""The inside of the process that parses shell texts (`tree.py` starts it): the one place that loads bash's grammar.

It imports little, to start in a moment, and is confined before it reads the first text. First it tells, as JSON,
whether it is, and the kinds of nodes that there are. Then, for each text, of each node, parents first, four numbers:
its kind and flags, where it starts and ends, and how many children it has. Before everything stands its length.
"""

from __future__ import annotations

import json
import os
import signal
import struct
from array import array
from typing import TYPE_CHECKING

from repo.bounds import confine

if TYPE_CHECKING:
    from tree_sitter import Tree

LENGTH = struct.Struct("=I")
NODE_NUMBERS = 4
NODE_BYTES = 4 * NODE_NUMBERS
NAMED, MISSING, HAS_ERROR, FLAG_BITS = 1, 2, 4, 3
MAX_MEMORY_BYTES = 512 * 1024 * 1024
MAX_CPU_S = 1.0  # for one text: most of those that `syntax` lets through take half at most, and the others are refused


def main() -> None:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    language = Language(tree_sitter_bash.language())
    parser = Parser(language)
    names = sorted({language.node_kind_for_id(kind) or "" for kind in range(language.node_kind_count)} | {"ERROR"})
    kinds = {name: index for index, name in enumerate(names)}
    _tell(json.dumps({"is_confined": confine(MAX_MEMORY_BYTES), "kinds": names}).encode())
    while length := os.read(0, LENGTH.size):
        text = _heard(LENGTH.unpack(length)[0])
        signal.setitimer(signal.ITIMER_PROF, MAX_CPU_S)  # ends the process, unless it is set anew
        told = _numbers(parser.parse(text), kinds)
        signal.setitimer(signal.ITIMER_PROF, 0)
        _tell(told)
    os._exit(0)  # what Python does at an end is more than this process may


def _numbers(tree: Tree, kinds: dict[str, int]) -> bytes:
    numbers, cursor = array("I"), tree.walk()
    while True:
        node = cursor.node
        assert node is not None
        flags = NAMED * node.is_named | MISSING * node.is_missing | HAS_ERROR * node.has_error
        numbers.extend((kinds[node.type] << FLAG_BITS | flags, node.start_byte, node.end_byte, node.child_count))
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return numbers.tobytes()


def _heard(left: int) -> bytes:
    pieces: list[bytes] = []
    while left:
        pieces.append(os.read(0, left))
        left -= len(pieces[-1])
    return b"".join(pieces)


def _tell(answer: bytes) -> None:
    left = memoryview(LENGTH.pack(len(answer)) + answer)
    while left:
        left = left[os.write(1, left) :]


if __name__ == "__main__":
    main()
