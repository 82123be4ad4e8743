"""Identifiers, states, deadlines, budgets, errors: the small values that everything else is made of."""

from __future__ import annotations

import doctest
import importlib
import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from envelope.budget import Budget, Usage
from envelope.deadline import expires_at_ms, remaining_ms
from envelope.errors import (
    CODES,
    BadSignature,
    DecodeError,
    EnvelopeError,
    ErrorCode,
    IllegalMove,
    MusterError,
    ScopeExceeded,
)
from envelope.ids import blob_ref, content_key, new_task_id, new_trace_id
from envelope.lifecycle import NEXT, TERMINAL, State, check_move
from envelope.messages import MAX_DEADLINE_MS, ErrorInfo, Workspace
from envelope.pattern import MAX_PATTERN_CHARS
from envelope.scope import narrow


@pytest.mark.parametrize("module", ["deadline", "pattern", "scope"])
def test_the_examples_in_the_docs_are_true(module):
    assert doctest.testmod(importlib.import_module(f"envelope.{module}")).failed == 0


# -- ids


def test_task_ids_are_version_7_and_sort_by_time():
    ids = [new_task_id(now_ms=now_ms) for now_ms in (0, 1, 1_700_000_000_000, 1_700_000_000_001, 2**48 - 1)]

    assert ids == sorted(ids)
    assert {(uuid.UUID(task_id).version, uuid.UUID(task_id).variant) for task_id in ids} == {(7, uuid.RFC_4122)}


def test_ids_of_one_moment_differ():
    assert len({new_task_id(now_ms=5) for _ in range(1000)}) == 1000


def test_a_trace_id_is_that_of_trace_context():
    assert re.fullmatch("[0-9a-f]{32}", new_trace_id())


@given(parts=st.lists(st.text(max_size=3), max_size=4), others=st.lists(st.text(max_size=3), max_size=4))
def test_content_keys_are_equal_only_for_equal_parts(parts, others):
    assert (content_key(*parts) == content_key(*others)) is (parts == others)


def test_a_blobs_name_is_its_contents_digest():
    assert blob_ref(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


# -- states


def test_the_table_is_that_of_the_design():
    table = {
        "pending": "running cancelled expired error",
        "running": "waiting pending completed cancelled expired error",
        "waiting": "running pending cancelled expired error",
    }
    assert {state: set(following) for state, following in NEXT.items() if following} == {
        State(state): {State(name) for name in following.split()} for state, following in table.items()
    }
    assert {"completed", "cancelled", "expired", "error"} == TERMINAL


@pytest.mark.parametrize("old", State)
@pytest.mark.parametrize("new", State)
def test_an_illegal_move_names_both_states(old, new):
    if new in NEXT[old]:
        check_move(old, new)
    else:
        with pytest.raises(IllegalMove, match=f"{old} to {new}"):
            check_move(old, new)


# -- deadlines and budgets


@given(st.integers(0, 2**41), st.integers(1, MAX_DEADLINE_MS), st.none() | st.integers(0, 2**42), st.integers(0, 2**42))
def test_a_task_never_outlives_its_parent_and_time_left_is_never_negative(accepted, deadline, parent, now):
    end = expires_at_ms(accepted, deadline, parent_expires_at_ms=parent)

    assert end <= accepted + deadline
    assert parent is None or end <= parent
    assert remaining_ms(end, now_ms=now) == max(0, end - now)


def test_usage_adds_up():
    one = Usage(input_tokens=1, output_tokens=2, cached_tokens=3, reasoning_tokens=4, cache_write_tokens=5)

    assert one + one == Usage(
        input_tokens=2, output_tokens=4, cached_tokens=6, reasoning_tokens=8, cache_write_tokens=10
    )
    assert (one + one).total_tokens == 6


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("deadline_ms", 0),
        ("deadline_ms", MAX_DEADLINE_MS + 1),
        ("task_id", "1"),
        ("trace_id", "X" * 32),
        ("recipient", "a b"),
        ("tenant", "a:b"),
        ("auth_scope", ("read",)),
        ("auth_scope", (":x",)),
        ("budget", {"max_turns": -1}),
        ("idempotency_key", "k" * 201),
        ("priority", "urgent"),
        ("workspace", {"base": "a", "url": "https://me:secret@example.org/r.git"}),
        ("workspace", {"base": "a", "url": "https://ghp_abcdef@example.org/r.git"}),
        ("workspace", {"base": "a", "url": "ssh://git:secret@example.org/r.git"}),
        ("workspace", {"base": "a"}),
        ("workspace", {"base": "a", "path": "/r", "url": "https://example.org/r.git"}),
        ("auth_scope", ("edit:" + "x" * MAX_PATTERN_CHARS,)),
        ("attachments", [{"blob": "sha256:../..", "name": "x"}]),
    ],
)
def test_a_bad_request_is_refused_with_the_field_named(samples, field, value):
    fields = samples.request.model_dump()

    with pytest.raises(ValidationError) as refusal:
        type(samples.request).model_validate({**fields, field: value})
    assert {error["loc"][0] for error in refusal.value.errors()} == {field}


@pytest.mark.parametrize(
    "url", ["https://example.org/r.git", "ssh://git@example.org/r.git", "git@example.org:r.git", "file:///srv/r@1.git"]
)
def test_an_address_without_a_secret_is_taken(url):
    assert Workspace(url=url, base="a").url == url


def test_the_longest_grant_can_be_handed_on():
    longest = "edit:" + "x" * (MAX_PATTERN_CHARS - len("edit:"))

    assert narrow((longest,), (longest,)) == (longest,)


def test_a_result_cannot_say_that_a_task_still_runs(samples):
    with pytest.raises(ValidationError, match="does not"):
        type(samples.result).model_validate({**samples.result.model_dump(), "status": "running"})


def test_messages_cannot_be_changed(samples):
    with pytest.raises(ValidationError):
        samples.request.sender = "somebody else"
    with pytest.raises(ValidationError):
        Budget().max_turns = 5


# -- errors


def test_every_code_says_whether_to_retry_and_whose_turn_it_is():
    assert set(CODES) == set(ErrorCode)
    for code in ErrorCode:
        info = ErrorInfo.of(code, "why", "what next")
        assert (info.retryable, info.turn, info.hint) == (CODES[code].retryable, CODES[code].turn, "what next")


def test_the_tree_of_errors_is_as_drawn():
    assert set(MusterError.__subclasses__()) >= {EnvelopeError, ScopeExceeded}
    assert set(EnvelopeError.__subclasses__()) == {DecodeError, BadSignature, IllegalMove}
    assert (MusterError("what").message, MusterError("what", hint="next").hint) == ("what", "next")
