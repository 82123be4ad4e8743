"""Models that nobody may ask: found out by the first samples, so that the others need not try."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from envelope.errors import ErrorCode

from .matrix import Sample
from .outcomes import SampleReport
from .spec import SuiteSpec

# No key, no such model: before the first call, and again at each try.
REFUSED = frozenset({ErrorCode.MODEL_AUTH, ErrorCode.MODEL_UNKNOWN})
# So is a model without a price where there is a budget. Of `bad_input`, no other words speak of the model.
NO_PRICE = "the price of "
# One case may be at fault itself. Two that are told the same are not.
CASES = 2

Whom = tuple[str, str]  # model and agent


@dataclass(slots=True)
class Refusals:
    """`_told`: the samples that ended with the same words, by whom they asked and by case. `_served`: whom a sample has
    asked and was judged. What they refuse others may pass."""

    _told: dict[tuple[Whom, str], dict[str, SampleReport]] = field(
        default_factory=lambda: defaultdict[tuple[Whom, str], dict[str, SampleReport]](dict)
    )
    _served: set[Whom] = field(default_factory=set[Whom])

    def note(self, sample: Sample, report: SampleReport, *, found: bool) -> None:
        """`found`: this attempt of the driver has not begun it. Then it is no reason to leave out others: an attempt
        before may have begun them, too, and they are to be found again."""
        if report.judged and not report.reused:
            self._served.add(_whom(sample))
        elif _is_refusal(report) and not found:
            self._told[_whom(sample), report.detail].setdefault(sample.case.name, report)

    def of(self, sample: Sample, spec: SuiteSpec) -> SampleReport | None:
        """One that ended as this one would; None when there is no reason to think so."""
        if _whom(sample) in self._served:
            return None
        enough = min(CASES, len(spec.cases))
        for (whom, _), cases in self._told.items():
            if whom == _whom(sample) and len(cases) >= enough:
                return next(iter(cases.values()))
        return None


def _is_refusal(report: SampleReport) -> bool:
    has_no_price = report.code == ErrorCode.BAD_INPUT and report.detail.startswith(NO_PRICE)
    return report.outcome == "failed" and (has_no_price or report.code in REFUSED)


def _whom(sample: Sample) -> Whom:
    return sample.variant.model, sample.variant.agent
