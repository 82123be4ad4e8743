"""Models that nobody may ask: found out by the first samples, so that the others need not try."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from envelope.errors import ErrorCode

from .matrix import Sample
from .outcomes import SampleReport
from .spec import SuiteSpec

# No price where there is a budget, no key, no such model: before the first call, and again at each try.
REFUSED = frozenset({ErrorCode.BAD_INPUT, ErrorCode.MODEL_AUTH, ErrorCode.MODEL_UNKNOWN})
# One case may be at fault itself. Two that are told the same are not.
CASES = 2

Whom = tuple[str, str]  # model and agent


@dataclass(slots=True)
class Refusals:
    """`_told`: the samples that ended with the same words, by whom they asked and by case."""

    _told: dict[tuple[Whom, str], dict[str, SampleReport]] = field(
        default_factory=lambda: defaultdict[tuple[Whom, str], dict[str, SampleReport]](dict)
    )

    def note(self, sample: Sample, report: SampleReport) -> None:
        if report.outcome == "failed" and report.code in REFUSED:
            self._told[_whom(sample), report.detail].setdefault(sample.case.name, report)

    def of(self, sample: Sample, spec: SuiteSpec) -> SampleReport | None:
        """One that ended as this one would; None when there is no reason to think so."""
        enough = min(CASES, len(spec.cases))
        for (whom, _), cases in self._told.items():
            if whom == _whom(sample) and len(cases) >= enough:
                return next(iter(cases.values()))
        return None


def _whom(sample: Sample) -> Whom:
    return sample.variant.model, sample.variant.agent
