"""Which old outputs of tools are cleared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.agent.pruning import CLEARED, prune
from workers.llm.base import ChatMessage

TOKENS_OF_A_LETTER = 10_000


def history(spelled: str) -> list[ChatMessage]:
    """A letter is a message: `o` an output of 10,000 tokens, `s` a skill's, `e` an error's, `p` a prompt, `n` a note of
    Muster's, `a` an answer, `S` a summary, `c` an output that was cleared before."""
    long = "x" * 4 * TOKENS_OF_A_LETTER
    kinds = {
        "o": ChatMessage(role="tool", name="read", content=long),
        "s": ChatMessage(role="tool", name="skill", content=long),
        "e": ChatMessage(role="tool", name="read", content=long, is_error=True),
        "c": ChatMessage(role="tool", name="read", content=CLEARED),
        "p": ChatMessage(role="user", content="ask"),
        "n": ChatMessage(role="user", content="note", synthetic=True),
        "a": ChatMessage(role="assistant", content=long),
        "S": ChatMessage(role="assistant", content="so far", synthetic=True),
    }
    return [kinds[letter] for letter in spelled]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pooooooo pp", "pcccoooo pp"),  # the newest 40,000 tokens stay
        ("poooooo pp", "poooooo pp"),  # 20,000 gained is too little
        ("pooooooo p oooo p oooo", "pcccoooo p oooo p oooo"),  # the last two turns are not counted
        ("ooooooooo", "ooooooooo"),
        ("pooooooooo p ooooooooo", "pooooooooo p ooooooooo"),  # there are no older turns
        ("pooooooooo n p", "pooooooooo n p"),  # what Muster says begins no turn
        ("posoosoooo pp", "pcsccsoooo pp"),  # a skill's output stays, and counts for nothing
        ("peeooooeooo pp", "peecccoeooo pp"),  # errors are short, and say what not to do again
        ("paoaoaoaoaoaoao pp", "pacacacaoaoaoao pp"),
        ("oooo S p ooooooo pp", "oooo S p cccoooo pp"),  # what came before a summary is not shown anyway
        ("pooo c ooooooo pp", "pooo c cccoooo pp"),  # the last pruning came as far as here
        ("pooo c oooooo pp", "pooo c oooooo pp"),
    ],
)
def test_old_outputs_go(before, after):
    assert prune(history(before.replace(" ", ""))) == tuple(history(after.replace(" ", "")))


@given(spelled=st.text("opnaseSc", max_size=30))
def test_nothing_else_ever_changes(spelled):
    messages = history(spelled)
    pruned = prune(messages)

    changed = [index for index, pair in enumerate(zip(messages, pruned, strict=True)) if pair[0] != pair[1]]
    assert {spelled[index] for index in changed} <= {"o"}
    assert len(changed) == 0 or len(changed) > 2
    assert {pruned[index].content for index in changed} <= {CLEARED}
    assert all(spelled[index:].count("p") >= 2 for index in changed)
    assert all(spelled[index + 1 :].count("o") >= 4 for index in changed)


@given(spelled=st.text("opas", max_size=40))
def test_pruning_again_changes_nothing(spelled):
    once = prune(history(spelled))

    assert prune(once) == once
