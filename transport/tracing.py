"""A task's spans: its submission, its wait in the queue, and each of its attempts, which hang on the submission."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass

from envelope.budget import MICROUSD_PER_USD
from envelope.messages import TaskRequest
from envelope.tracing import names
from envelope.tracing.context import TraceContext, attempt_span_id, context_of
from envelope.tracing.spans import Attributes, Beginning, Passed, Place, Span, here, is_traced, open_span, placed

from .base import Claim, Handle
from .delivery import ConsumerEvent, What


@dataclass(frozen=True, slots=True)
class Submission:
    """Requests on their way to the queue, and the spans of that."""

    requests: Sequence[TaskRequest]
    spans: Sequence[Span] = ()

    def accepted(self, handles: Sequence[Handle]) -> None:
        for span, handle in zip(self.spans, handles, strict=False):
            span.set({names.TASK_ID: handle.task_id, names.EXISTING: handle.existing})


@contextmanager
def submission(requests: Sequence[TaskRequest]) -> Generator[Submission]:
    """The requests as they travel: each says where its attempts belong.

    Below whoever submits it, who may be a caller of ours. A trace of its own (a batch's shard) begins one, with a link
    to where it came from.
    """
    place = here()
    if not is_traced() and place.span.context is None:
        yield Submission(requests)
        return
    with ExitStack() as stack:
        spans = [stack.enter_context(_submit_span(request, place)) for request in requests]
        yield Submission([_traced(*each, place) for each in zip(requests, spans, strict=True)], spans)


def attempt_span(claim: Claim, request: TaskRequest) -> AbstractContextManager[None]:
    """All that is done meanwhile belongs to this attempt of the task."""
    if not is_traced() and not request.traceparent and here().span.context is None:
        return nullcontext()  # the most frequent case by far, and once for every task
    return _placed_attempt(claim, request)


@contextmanager
def _placed_attempt(claim: Claim, request: TaskRequest) -> Generator[None]:
    parent = context_of(request.traceparent, request.tracestate)
    with placed(Place(Passed(parent), request.trace_id)):
        if is_traced():
            with _attempt_spans(claim, request, parent):
                yield
        else:
            yield


@contextmanager
def _attempt_spans(claim: Claim, request: TaskRequest, parent: TraceContext | None) -> Generator[None]:
    """The attempt's, and beside it, for the first one, that of its wait."""
    lease, about = claim.lease, _about(request)
    its_own = "" if parent else request.trace_id  # its submitter did not trace
    if lease.attempt == 1:
        ended_at_ms = max(claim.accepted_at_ms, claim.started_at_ms)
        waited = Beginning(parent, its_own, began_at_ms=claim.accepted_at_ms, ended_at_ms=ended_at_ms)
        with open_span(names.QUEUE, names.QUEUE.called(pool=request.recipient), about, waited):
            pass
    attributes: Attributes = {
        **about,
        names.ATTEMPT_NUMBER: lease.attempt,
        names.LOST_LEASES: claim.lost_leases,
        names.TENANT: request.tenant,
        names.BATCH: request.batch_id,
        names.DESTINATION: request.recipient,
        names.OPERATION: "invoke_agent",
        names.AGENT_NAME: request.agent,
        names.CONVERSATION: request.resume_token or request.task_id,
    }
    beginning = Beginning(parent, its_own, attempt_span_id(lease.task_id, lease.attempt))
    with open_span(names.ATTEMPT, names.ATTEMPT.called(agent=request.agent), attributes, beginning):
        yield


def tell_span(event: ConsumerEvent) -> None:
    """How the attempt that is open here ended."""
    if not is_traced():
        return
    span, result = here().span, event.result
    if result is None:
        span.set({names.OUTCOME: event.what})
    else:
        span.set({names.OUTCOME: result.status, names.COST_USD: result.metrics.cost_microusd / MICROUSD_PER_USD})
    if event.what is What.LOST or (result is not None and result.errors):
        span.fail(str(result.errors[0].code) if result is not None else What.LOST)


def _submit_span(request: TaskRequest, place: Place) -> AbstractContextManager[Span]:
    attributes = {
        **_about(request),
        names.TENANT: request.tenant,
        names.BATCH: request.batch_id,
        names.DESTINATION: request.recipient,
    }
    return open_span(names.SUBMIT, names.SUBMIT.called(agent=request.agent), attributes, _beginning(request, place))


def _beginning(request: TaskRequest, place: Place) -> Beginning:
    context = place.span.context
    if place.trace_id not in ("", request.trace_id):
        return Beginning(trace_id=request.trace_id, links=(context,) if context else ())
    parent = context or context_of(request.traceparent, request.tracestate)
    return Beginning(parent, "" if parent else request.trace_id)


def _traced(request: TaskRequest, span: Span, place: Place) -> TaskRequest:
    """Where nobody traces here, others may: what our caller has said is passed on."""
    context = span.context or _beginning(request, place).parent
    if context is None:
        return request
    return request.model_copy(update={"traceparent": context.traceparent, "tracestate": context.state})


def _about(request: TaskRequest) -> Attributes:
    return {
        names.TASK_ID: request.task_id,
        names.TRACE_ID: request.trace_id,
        names.POOL: request.recipient,
        names.AGENT: request.agent,
    }
