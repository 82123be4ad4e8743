"""What a suite did not do, or not as it was required, as errors: like with like. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from envelope.errors import ErrorCode
from envelope.messages import ErrorInfo

from ..batch.causes import in_general
from .outcomes import NO_CALL, SampleReport
from .report import EvalReport

NO_MONEY = "the suite's budget has no room for it"
NO_TIME = "the suite's time was over"
AGAIN = "run the same suite again: what was done is not done again"
MAX_CAUSES = 5  # of failures, each a line: people mend the commonest first
LIMITS = {
    NO_TIME: (ErrorCode.DEADLINE, "raise limits.deadline_s"),
    NO_MONEY: (ErrorCode.BUDGET, "raise limits.budget_usd"),
    NO_CALL: (ErrorCode.BUDGET, "raise limits.sample_budget_usd, or its tenant's budget if that is spent"),
}

K = TypeVar("K")


def undone(report: EvalReport) -> list[ErrorInfo]:
    """What was left undone comes before what was required of the rest. The first decides the exit code."""
    missing = [ErrorInfo.of(ErrorCode.GATE_FAILED, unmet, "this is what [require] asks for") for unmet in report.unmet]
    return [*_not_run(report.samples), *_failed(report.samples), *missing]


def _not_run(samples: Sequence[SampleReport]) -> Iterator[ErrorInfo]:
    left = [sample for sample in samples if sample.outcome == "not_run"]
    for group in _alike(left, lambda sample: sample.detail):
        why = group[0].detail
        code, hint = LIMITS[why]
        yield ErrorInfo.of(code, f"{len(group)} of {len(samples)} samples were not run: {why}", f"{hint}, and {AGAIN}")


def _failed(samples: Sequence[SampleReport]) -> Iterator[ErrorInfo]:
    """A suite of which everything failed in one way ends as its samples did."""
    failed = [sample for sample in samples if sample.outcome == "failed"]
    codes = {sample.code for sample in failed}
    alone = codes.pop() if len(failed) == len(samples) and len(codes) == 1 else ""
    code = ErrorCode(alone) if alone else ErrorCode.PARTIAL
    causes = _alike(failed, lambda sample: (sample.code, in_general(sample.detail)))
    for group in causes[:MAX_CAUSES]:
        first = group[0]
        message = f"{len(group)} of {len(samples)} samples failed: {first.detail}"
        mend = first.hint or f"see one: muster task show {first.task_id}"
        yield ErrorInfo.of(code, message, f"{mend}; then {AGAIN}")
    if others := sum(map(len, causes[MAX_CAUSES:])):
        message = f"{others} of {len(samples)} samples failed for other reasons"
        yield ErrorInfo.of(code, message, f"the report says why; then {AGAIN}")


def _alike(samples: Sequence[SampleReport], key: Callable[[SampleReport], K]) -> list[list[SampleReport]]:
    """Groups in the order of size; what is as large, in that of the samples."""
    groups: dict[K, list[SampleReport]] = {}
    for sample in samples:
        groups.setdefault(key(sample), []).append(sample)
    return sorted(groups.values(), key=len, reverse=True)
