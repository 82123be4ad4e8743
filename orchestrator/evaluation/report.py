"""What a suite came to, as data: the result's structured output, and the whole of it as an attachment. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from envelope.budget import MICROUSD_PER_USD
from envelope.messages import TaskResult
from envelope.wire import Wire

from .outcomes import JUDGED, Outcome, SampleReport
from .spec import SuiteSpec, Variant
from .statistics import bootstrap, difference_interval, is_uniform, mcnemar, pass_at_k, percentile, wilson

REPORT_NAME = "report.json"
MAX_REPORT_BYTES = 512 * 1024  # a result is at most 1 MiB
SIGNIFICANT = 0.05
FEW_CASES = 10

Method = Literal["wilson", "bootstrap", ""]
Verdict = Literal["better", "worse", "unclear"]


class VariantReport(Wire):
    """`pass_at`: by the number of tries, as far as each case has so many that were judged. `low` and `high`: of pass@1,
    by `method`. Costs and counts are of all tries, accepted or not."""

    name: str
    model: str
    agent: str
    prompt: str
    temperature: float | None
    counts: dict[Outcome, int]
    cases: int  # with a try that was judged
    pass_at: dict[int, float]
    low: float
    high: float
    method: Method
    cost_microusd: int
    cost_per_accepted_microusd: int | None
    input_tokens: int
    output_tokens: int
    turns: int
    wall_ms_median: int | None
    wall_ms_p95: int | None

    @property
    def judged(self) -> int:
        return sum(self.counts.get(outcome, 0) for outcome in JUDGED)


class Comparison(Wire):
    """`difference` of pass@1 to the baseline's, over the `cases` that both tried; `low` to `high` as in
    `difference_interval`. `better`, `worse`: in so many cases; `p_value`: of McNemar's exact test on these."""

    variant: str
    baseline: str
    cases: int
    difference: float
    low: float
    high: float
    better: int
    worse: int
    p_value: float
    verdict: Verdict


class Chosen(Wire):
    """The best of a variant's tries of a case: among those that the gate accepted, the smallest change.

    `of`: how many tries it was chosen from. `is_best`: no other variant's of this case is better.
    """

    case: str
    variant: str
    task_id: str
    number: int
    files: int = 0
    lines: int = 0
    of: int = 1
    is_best: bool = False


class EvalReport(Wire):
    """`paid_microusd`: by this run; what was reused had been paid before. `listed` is false when this is a shortened
    one; the attachment `report.json` is always whole."""

    name: str
    tries: int  # of each case by each variant
    variants: tuple[VariantReport, ...]
    comparisons: tuple[Comparison, ...] = ()
    chosen: tuple[Chosen, ...] = ()
    samples: tuple[SampleReport, ...] = ()
    counts: dict[Outcome, int] = Field(default_factory=dict[Outcome, int])
    paid_microusd: int = 0
    cap_microusd: int | None = None
    reused: int = 0
    unmet: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    listed: bool = True

    @property
    def best(self) -> tuple[Chosen, ...]:
        """The change to take of each case that has one; nothing where there was no choice."""
        return tuple(one for one in self.chosen if one.is_best) if self.tries > 1 or len(self.variants) > 1 else ()

    def abridged(self) -> EvalReport:
        """As it fits into a result."""
        if len(self.model_dump_json().encode()) <= MAX_REPORT_BYTES:
            return self
        return self.model_copy(update={"samples": (), "chosen": (), "listed": False})


def report_of(result: TaskResult) -> EvalReport | None:
    """As the result has it, perhaps shortened; None when the suite ended before there was one."""
    structured: Any = result.output.structured
    return EvalReport.model_validate(structured) if structured else None


def concluded(
    spec: SuiteSpec, variants: Sequence[Variant], samples: Sequence[SampleReport], *, paid: int, cap: int | None
) -> EvalReport:
    """Of all samples, also those that were not run. `paid` and `cap` are micro-dollars of this run."""
    by_variant: dict[str, list[SampleReport]] = defaultdict(list)
    for sample in samples:
        by_variant[sample.variant].append(sample)
    reports = tuple(_variant_report(variant, by_variant[variant.name], spec.samples) for variant in variants)
    baseline = spec.baseline or variants[0].name
    comparisons = tuple(
        _comparison(name, by_variant[name], baseline, by_variant[baseline])
        for name in (variant.name for variant in variants)
        if name != baseline
    )
    return EvalReport(
        name=spec.name,
        tries=spec.samples,
        variants=reports,
        comparisons=comparisons,
        chosen=tuple(_chosen(samples)),
        samples=tuple(samples),
        counts=dict(Counter[Outcome](sample.outcome for sample in samples)),
        paid_microusd=paid,
        cap_microusd=cap,
        reused=sum(sample.reused for sample in samples),
        unmet=tuple(_unmet(spec, reports)),
        notes=tuple(_notes(spec, reports, comparisons)),
    )


def _variant_report(variant: Variant, samples: Sequence[SampleReport], tries: int) -> VariantReport:
    judged = [sample for sample in samples if sample.judged]
    accepted = sum(sample.outcome == "accepted" for sample in judged)
    cost = sum(sample.cost_microusd for sample in samples)
    cases = _cases(judged)
    low, high, method = _interval(cases)
    walls = [sample.wall_ms for sample in judged]
    return VariantReport(
        **variant.model_dump(),
        counts=dict(Counter[Outcome](sample.outcome for sample in samples)),
        cases=len(cases),
        pass_at=_pass_at(cases, tries),
        low=low,
        high=high,
        method=method,
        cost_microusd=cost,
        cost_per_accepted_microusd=cost // accepted if accepted else None,
        input_tokens=sum(sample.usage.input_tokens for sample in samples),
        output_tokens=sum(sample.usage.output_tokens for sample in samples),
        turns=sum(sample.turns for sample in samples),
        wall_ms_median=_ms(percentile(walls, 50)),
        wall_ms_p95=_ms(percentile(walls, 95)),
    )


Cases = Mapping[str, tuple[int, int]]  # how many tries of each case were judged, and how many accepted


def _cases(judged: Sequence[SampleReport]) -> Cases:
    counts: dict[str, tuple[int, int]] = {}
    for sample in judged:
        tries, accepted = counts.get(sample.case, (0, 0))
        counts[sample.case] = tries + 1, accepted + (sample.outcome == "accepted")
    return counts


def _pass_at(cases: Cases, tries: int) -> dict[int, float]:
    """The mean over cases; told for a number only where each case had as many tries."""
    enough = min((n for n, _ in cases.values()), default=0)
    return {
        k: _mean([pass_at_k(n, accepted, k) for n, accepted in cases.values()])
        for k in range(1, min(tries, enough) + 1)
    }


def _interval(cases: Cases) -> tuple[float, float, Method]:
    """Tries of one case are not independent of each other: where there are several, cases are what is drawn, and cases
    that came out all alike count as so many single tries."""
    if not cases:
        return 0.0, 1.0, ""
    rates = [accepted / tries for tries, accepted in cases.values()]
    if is_uniform(rates) or all(tries == 1 for tries, _ in cases.values()):
        return *wilson(math.fsum(rates), len(rates)), "wilson"
    return *bootstrap(rates), "bootstrap"


def _comparison(name: str, own: Sequence[SampleReport], baseline: str, other: Sequence[SampleReport]) -> Comparison:
    ours, theirs = (_shares(samples) for samples in (own, other))
    differences = [ours[case] - theirs[case] for case in ours if case in theirs]
    better, worse = sum(each > 0 for each in differences), sum(each < 0 for each in differences)
    low, high = difference_interval(differences)
    p_value = mcnemar(better, worse)
    clear = p_value < SIGNIFICANT and not low <= 0 <= high
    difference = _mean(differences)
    return Comparison(
        variant=name,
        baseline=baseline,
        cases=len(differences),
        difference=difference,
        low=low,
        high=high,
        better=better,
        worse=worse,
        p_value=p_value,
        verdict="unclear" if not clear else "better" if difference > 0 else "worse",
    )


def _shares(samples: Sequence[SampleReport]) -> dict[str, float]:
    cases = _cases([sample for sample in samples if sample.judged])
    return {case: accepted / tries for case, (tries, accepted) in cases.items()}


def _chosen(samples: Sequence[SampleReport]) -> list[Chosen]:
    tried = Counter((sample.case, sample.variant) for sample in samples if sample.judged)
    best: dict[tuple[str, str], SampleReport] = {}
    best_of_case: dict[str, SampleReport] = {}
    for sample in samples:
        if sample.outcome == "accepted":
            key = (sample.case, sample.variant)
            best[key] = min(best.get(key, sample), sample, key=_worth)
            best_of_case[sample.case] = min(best_of_case.get(sample.case, sample), sample, key=_worth)
    return [
        Chosen(
            case=one.case,
            variant=one.variant,
            task_id=one.task_id,
            number=one.number,
            files=one.files,
            lines=one.lines,
            of=tried[key],
            is_best=one is best_of_case[one.case],
        )
        for key, one in best.items()
    ]


def _worth(accepted: SampleReport) -> tuple[int, int, int]:
    """Of what the gate accepts alike, the smallest change is the easiest to read."""
    return accepted.lines, accepted.cost_microusd, accepted.number


def _unmet(spec: SuiteSpec, reports: Sequence[VariantReport]) -> list[str]:
    found: list[str] = []
    wanted = spec.require
    for one in reports:
        if wanted.variant and wanted.variant != one.name:
            continue
        for k, least in ((1, wanted.min_pass_at_1), (spec.samples, wanted.min_pass_at_n)):
            reached = one.pass_at.get(k)
            if least is not None and (reached is None or reached < least):
                told = "not known" if reached is None else f"{reached:.1%}"
                found.append(f"pass@{k} of {one.name} is {told}, and {least:.1%} is required")
        most = wanted.max_usd_per_accepted
        cost = one.cost_per_accepted_microusd
        if most is not None and (cost is None or cost > most * MICROUSD_PER_USD):
            paid = "nothing was accepted" if cost is None else f"an accepted change of it costs {_usd(cost)}"
            found.append(f"{one.name}: {paid}, and ${most:.4f} is the most")
    return found


def _notes(spec: SuiteSpec, reports: Sequence[VariantReport], comparisons: Sequence[Comparison]) -> list[str]:
    notes: list[str] = []
    if len(spec.cases) < FEW_CASES:
        notes.append(f"with {len(spec.cases)} case(s) the intervals say little")
    if lost := sum(one.counts.get("failed", 0) for one in reports):
        notes.append(f"{lost} sample(s) failed for reasons that say nothing of their variant, and count in no rate")
    if len(comparisons) > 1:
        notes.append(f"of {len(comparisons)} comparisons one in twenty seems clear by chance alone")
    return notes


def _usd(microusd: int) -> str:
    return f"${microusd / MICROUSD_PER_USD:.4f}"  # as exact as what is required


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if values else 0.0


def _ms(value: float | None) -> int | None:
    return None if value is None else round(value)
