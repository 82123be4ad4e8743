"""A task that cannot be: refused where it is made, with the field named as its caller named it."""

from __future__ import annotations

import pytest

from envelope.ids import shares_home
from envelope.messages import MAX_DEADLINE_MS
from orchestrator.errors import BadInput
from orchestrator.submit import repeated, task_request

FIELDS = {"agent": "build", "pool": "build", "deadline_ms": 60_000, "auth_scope": ()}


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("deadline_ms", 0, "deadline_ms: "),
        ("deadline_ms", -5, "deadline_ms: "),
        ("deadline_ms", MAX_DEADLINE_MS + 1, "deadline_ms: "),
        ("deadline_ms", "soon", "deadline_ms: "),
        ("budget", {"max_turns": -1}, "budget.max_turns: "),
        ("budget", {"max_cost_microusd": -1}, "budget.max_cost_microusd: "),
        ("pool", "a b", "pool: "),
        ("agent", "", "agent: "),
        ("tenant", "a:b", "tenant: "),
        ("auth_scope", ("everything",), "auth_scope.0: "),
        ("priority", "urgent", "priority: "),
        ("prompt", 5, "prompt: "),
        ("idempotency_key", "k" * 201, "idempotency_key: "),
        ("workspace", {"base": "a"}, "workspace: say exactly one"),
        ("attachments", [{"blob": "sha256:../..", "name": "x"}], "attachments.0.blob: "),
    ],
)
def test_the_field_that_is_wrong_is_named(field, value, named):
    with pytest.raises(BadInput) as refusal:
        task_request(**{**FIELDS, field: value})
    assert refusal.value.message.startswith(named)
    assert "\n" not in refusal.value.message


@pytest.mark.parametrize(
    ("field", "value", "hint"),
    [("deadline_ms", 0, "30 days"), ("budget", {"max_turns": -1}, "not negative"), ("pool", "a b", "letters, digits")],
)
def test_what_helps_is_said_beside_it(field, value, hint):
    with pytest.raises(BadInput) as refusal:
        task_request(**{**FIELDS, field: value})
    assert hint in refusal.value.hint


@pytest.mark.parametrize("missing", ["agent", "deadline_ms"])
def test_a_field_that_is_missing_is_named(missing):
    with pytest.raises(BadInput, match=f"^{missing}: "):
        task_request(**{name: value for name, value in FIELDS.items() if name != missing})


def test_a_misspelt_field_is_not_ignored():
    with pytest.raises(BadInput, match="no field 'budgt'") as refusal:
        task_request(**FIELDS, budgt={"max_turns": 1})
    assert "'budget'" in refusal.value.hint


async def test_a_client_refuses_before_anything_is_sent(any_stage):
    with pytest.raises(BadInput, match="deadline_ms"):
        await any_stage.muster.submit(**{**FIELDS, "deadline_ms": 0})
    assert await any_stage.muster.transport.tasks() == []


async def test_a_client_names_the_agent_that_is_missing(any_stage):
    with pytest.raises(BadInput, match="agent"):
        await any_stage.muster.submit(deadline_ms=60_000)


# -- where a trace lives


def test_the_same_key_of_a_tenant_always_has_the_same_home():
    first, second = (task_request(**FIELDS, idempotency_key="k", tenant="acme") for _ in range(2))

    assert first.trace_id != second.trace_id
    assert shares_home(first.trace_id, key="acme:k")
    assert shares_home(second.trace_id, key="acme:k")
    assert not shares_home(task_request(**FIELDS, idempotency_key="other").trace_id, key="acme:k")


def test_what_is_repeated_lives_where_its_own_key_says():
    again = repeated(task_request(**FIELDS, idempotency_key="k"), "dead")

    assert shares_home(again.trace_id, key=f"default:{again.idempotency_key}")


def test_a_child_stays_in_its_parents_trace_when_it_is_repeated():
    parent = task_request(**FIELDS)
    child = task_request(**FIELDS, parent=parent, idempotency_key="k")

    assert (child.trace_id, repeated(child, "dead").trace_id) == (parent.trace_id, parent.trace_id)
