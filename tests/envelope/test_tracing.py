"""Trace context as it travels, and what a process does that is told to trace, or is not."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest
from collector import collector

from envelope.messages import TaskRequest
from envelope.tracing import names, spans
from envelope.tracing.context import TraceContext, context_in, context_of, tidy_state, variables_of
from envelope.tracing.otel import MAX_VALUE_CHARS, OtelTracer
from envelope.tracing.starting import is_wanted, traced

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
GOOD = f"00-{TRACE}-{SPAN}-01"


@pytest.mark.parametrize(
    "broken",
    [
        "",
        "00",
        GOOD[:-1],
        GOOD.upper(),
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-{SPAN}-01",
        f"{GOOD}-more",
        f"{GOOD}\n",
        f"00-{TRACE}-{SPAN}-0١",
        f"00-{TRACE}-{SPAN}-01; rm -rf /",
        "0" * 100_000,
    ],
)
def test_a_context_that_does_not_read_is_none(broken):
    assert context_of(broken) is None
    assert context_in({"TRACEPARENT": broken}) is None


def test_a_context_is_passed_on_as_it_came():
    context = context_of(GOOD, "a=1 , b@c=2,")
    assert context == TraceContext(TRACE, SPAN, True, "a=1,b@c=2")
    assert context.traceparent == GOOD
    assert context_in(variables_of(context)) == context
    assert context_of(f"00-{TRACE}-{SPAN}-00").traceparent == f"00-{TRACE}-{SPAN}-00"
    assert context_of(f"01-{TRACE}-{SPAN}-01-more").traceparent == GOOD  # of a later version, as we write it


@pytest.mark.parametrize("broken", ["=1", "a", "a=1\nb=2", "a=b=c", f"a={'x' * 600}", "A=1", 'a="\x00"', "a=ü"])
def test_a_state_that_does_not_read_is_none(broken):
    assert tidy_state(broken) == ""


def test_what_is_hostile_in_an_envelope_is_dropped_and_the_task_is_not():
    fields = {
        "task_id": "0197a1b0-0000-7000-8000-000000000001", "trace_id": TRACE, "sender": "x", "recipient": "build",
        "agent": "build", "deadline_ms": 1, "created_at_ms": 1,
    }  # fmt: skip
    request = TaskRequest(**fields, traceparent="$(reboot)", tracestate="a=1\r\nX: y")
    assert (request.traceparent, request.tracestate) == ("", "")
    assert TaskRequest(**fields, traceparent=GOOD, tracestate="a=1").traceparent == GOOD


@pytest.mark.parametrize(
    ("environ", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
    ],
)
def test_a_process_traces_where_a_collector_is_named(environ, wanted):
    assert is_wanted(environ) is wanted


def test_without_a_collector_nothing_is_imported_and_a_span_is_one_object_for_all():
    told = (
        "import sys\n"
        "from envelope.tracing.starting import traced\n"
        "from envelope.tracing.spans import span\n"
        "from envelope.tracing.names import TURN\n"
        "with traced('x', {}):\n"
        "    assert span(TURN, number=1) is span(TURN, number=2)\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])\n"
    )
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr


def test_what_cannot_be_used_is_a_warning_and_the_process_goes_on(monkeypatch, capfd):
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-1")
    with traced("x", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}):
        assert spans.here().span.context is None
    assert "not_traced" in capfd.readouterr().err


def _traced_to(one, monkeypatch, **environ: str):
    told = {**one.environment, **environ}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    return told


def test_a_span_says_what_failed_and_holds_no_secret(monkeypatch):
    token = "header-token-5b1d"
    with collector() as one:
        environ = _traced_to(one, monkeypatch, OTEL_EXPORTER_OTLP_HEADERS=f"authorization=Bearer {token}")
        with traced("a service", environ), pytest.raises(RuntimeError), spans.span(names.TURN, number=1) as turn:
            turn.set({names.TOOL_NAME: f"x {token} {'y' * 1000}"})
            raise RuntimeError("with a secret text")
        [seen] = one.until(bool)

    assert (seen.service, seen.name, seen.failed) == ("a service", "turn 1", True)
    assert seen.attributes["error.type"] == "RuntimeError"
    assert len(seen.attributes[names.TOOL_NAME]) == MAX_VALUE_CHARS
    assert token.encode() not in one.bodies[0] and b"secret text" not in one.bodies[0]
    assert one.headers[0]["authorization"] == f"Bearer {token}"


@pytest.mark.parametrize("sampler", ["always_off", "parentbased_always_off"])
def test_what_is_not_sampled_is_not_sent_and_everybody_below_knows(monkeypatch, sampler):
    with collector() as one:
        environ = _traced_to(one, monkeypatch, OTEL_TRACES_SAMPLER=sampler)
        with traced("x", environ), spans.span(names.TURN, number=1):
            assert spans.variables()["TRACEPARENT"].endswith("-00")
        assert one.spans == []


def test_the_operators_name_for_a_service_comes_before_ours(monkeypatch):
    with collector() as one:
        environ = _traced_to(one, monkeypatch, OTEL_SERVICE_NAME="theirs")
        with traced("ours", environ), spans.span(names.TURN, number=1):
            pass
        assert [seen.service for seen in one.until(bool)] == ["theirs"]


def test_a_collector_that_stands_still_fills_no_memory(monkeypatch):
    may_answer = threading.Event()
    with collector(lambda: 200 if may_answer.wait(60) else 500) as one:
        _traced_to(one, monkeypatch, OTEL_BSP_MAX_QUEUE_SIZE="64", OTEL_BSP_MAX_EXPORT_BATCH_SIZE="16")
        tracer = OtelTracer("x", captures=False)
        with spans.tracing(tracer):
            for number in range(5_000):
                with spans.span(names.TURN, number=number):
                    pass
            one.until_asked()
        may_answer.set()
        tracer.stop(60)

    assert 16 <= len(one.spans) <= 64 + 2 * 16


def test_every_name_of_others_is_one_that_they_know():
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes, messaging_attributes
    from opentelemetry.semconv.schemas import Schemas

    theirs = [*vars(gen_ai_attributes).values(), *vars(messaging_attributes).values(), "error.type"]
    ours = {name for name in names.ATTRIBUTES if not name.startswith("muster.")}
    assert ours <= {name for name in theirs if isinstance(name, str)}
    assert names.SCHEMA_URL in {schema.value for schema in Schemas}
