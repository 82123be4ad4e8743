"""What a run came to, for people: what changed, what proves it, what it cost, what was not done, what to type next."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from typing import Any

from rich.text import Text

from envelope.events import GateVerdict, WarningRaised
from envelope.gate import GateEvidence
from envelope.lifecycle import State
from envelope.messages import PatchRef, TaskResult

from ..batch.causes import causes
from ..batch.report import BatchReport, RepositoryReport
from ..evaluation.report import EvalReport
from ..evaluation.table import best_line, cost_line
from ..gating.text import gate_name, proof_text, verdict_text
from ..session.fold import Session
from ..units import dollars, duration, tokens
from ..words import counted
from .console import people, plain

# A screenful; the rest is in the patch, which the last lines tell how to see.
MAX_FILES = 12
NO_GOAL = "no gate was run on this change alone"
MAX_TROUBLES = 10
MAX_SHARDS = 5  # of a cause
MAX_BEST = 5  # changes to take
DETAIL_CHARS = 200  # of what went wrong: a command may have printed a page; `muster task logs` has it
ABOUT_CHARS = 9  # so that one summary looks like the next
UNPROVED = proof_text(verified=False, reason="")
Line = tuple[str, str]  # what it is about (empty: as the line above), and what there is to say, as plain text


@dataclass(frozen=True, slots=True)
class Summary:
    """`headline` is the one line that says how it ended, `good` its colour, `hint` what to try if it ended badly."""

    headline: str
    hint: str
    good: bool
    lines: tuple[Line, ...]
    commands: tuple[str, ...]

    def print(self) -> None:
        console = people()
        console.print()
        console.print(Text(self.headline, style=f"bold {'green' if self.good else 'red'}"), soft_wrap=True)
        if self.hint:
            console.print(f"hint: {self.hint}", soft_wrap=True)
        print_lines(self.lines)
        for command in self.commands:
            console.print(f"  {command}", soft_wrap=True)


def print_lines(lines: Iterable[Line]) -> None:
    lines = list(lines)
    width = max((len(about) for about, _ in lines), default=0)
    for about, text in lines:
        told = Text.assemble("  ", (f"{about:<{max(width, ABOUT_CHARS)}}", "dim"), " ", text.rstrip())
        people().print(told, soft_wrap=True)


def summary_of_run(
    view: Session,
    result: TaskResult,
    *,
    cap_microusd: int | None,
    branch: str = "",
    repository: Path | None = None,
    is_goal: bool = True,
) -> Summary:
    """Of a goal. It says "verified" only where the gate did; `branch`: the one that was set to the change.

    `repository`: where the change belongs, if that is not where the person stands. `is_goal`: else it is an agent's own
    task, whose word counts for nothing here.
    """
    own: dict[str, Any] = {"reason": NO_GOAL} if result.patch and result.patch.files else {}
    structured: dict[str, Any] = (result.output.structured or {}) if is_goal else own
    verified = structured.get("verified") is True
    reason = str(structured.get("reason") or "")
    lines = [
        *_changes(result.patch),
        *_tests(view.gates),
        *_evidence(GateEvidence.model_validate(structured.get("evidence") or {})),
        *_troubles(result, [reason] if reason and not verified and not result.errors else []),
        *_warnings(view.warnings),
        *_spent(view, result, cap_microusd),
        *([("branch", branch)] if branch else []),
    ]
    told = _summary(result, proof_text(verified=verified, reason=reason if verified else ""), lines, repository)
    if result.status is not State.CANCELLED or (result.errors and result.errors[0].hint):
        return told
    return replace(
        told, hint=f'once its agent has begun, its session goes on with: muster task prompt {result.task_id} "…"'
    )


def summary_of_batch(
    view: Session,
    result: TaskResult,
    report: BatchReport | None,
    *,
    cap_microusd: int | None,
    published: Collection[str],
) -> Summary:
    """`published` are the names of the repositories whose branch was set. `report`: None of a batch that ended before
    there was anything to report."""
    lines: list[Line] = []
    for repository in report.repositories if report else ():
        lines += _repository(repository)
        if repository.name in published and report:
            lines.append(("branch", f"{report.branch} at {repository.commit[:12]}"))
    lines += _causes(report) if report else ()
    lines += [*_troubles(result, []), *_warnings(view.warnings), *_spent(view, result, cap_microusd)]
    told = _summary(result, report.proof if report else UNPROVED, lines)
    again = (f"muster batch retry {result.task_id}   # once more what was not done",)
    return told if _is_done(result) else replace(told, commands=(*told.commands, *again))


def summary_of_fanout(view: Session, result: TaskResult, *, cap_microusd: int | None) -> Summary:
    """Nothing is proved here: what the tasks change, each keeps for itself."""
    counts: dict[str, Any] = result.output.structured or {}
    told = [(counts.get(name), name.replace("_", " ")) for name in ("completed", "failed", "not_waited_for")]
    answered = ", ".join(f"{count} {name}" for count, name in told if count)
    lines = [("items", answered or "none"), *_troubles(result, []), *_spent(view, result, cap_microusd)]
    headline = "✔ done" if _is_done(result) else _headline(result, UNPROVED)
    hint = "" if _is_done(result) or not result.errors else result.errors[0].hint
    return Summary(headline, hint, _is_done(result), tuple(lines), _next(result))


def summary_of_eval(view: Session, result: TaskResult, report: EvalReport | None) -> Summary:
    """None: it ended before there was a report. That samples were rejected is what it was to find out."""
    lines = [*_troubles(result, [])]
    if report is None:
        lines += _spent(view, result, None)
    else:
        counted = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in report.counts.items())
        lines = [("samples", counted), *lines, ("cost", cost_line(report))]
        lines.append(("time", duration(result.metrics.latency_ms)))
    done = _is_done(result)
    headline = "✔ every sample was judged" if done else _headline(result, UNPROVED)
    hint = "" if done or not result.errors else result.errors[0].hint
    tree = f"muster task tree {result.task_id}   # how each went"
    return Summary(headline, hint, done, tuple(lines), (tree, *(_best(report) if report else ())))


def _best(report: EvalReport) -> Iterator[str]:
    """How to take the change that was chosen for each case."""
    for one in report.best[:MAX_BEST]:
        yield f"muster task apply {one.task_id}   # the best of {plain(best_line(one))}"
    if more := len(report.best[MAX_BEST:]):
        yield f"… and for {counted(more, 'more case')}: --report markdown=PATH"


def _summary(result: TaskResult, proof: str, lines: Iterable[Line], repository: Path | None = None) -> Summary:
    own = result.errors[0].hint if result.errors else ""
    hint = "" if _is_done(result) else own or f"see how it went: muster task logs {result.task_id}"
    return Summary(_headline(result, proof), hint, _is_done(result), tuple(lines), _next(result, repository))


def _is_done(result: TaskResult) -> bool:
    return result.status is State.COMPLETED


def _headline(result: TaskResult, proof: str) -> str:
    if _is_done(result):
        return f"✔ {proof}"
    said = result.errors[0].message if result.errors else str(result.status)
    return "error: " + plain(said.partition("\n")[0])


def _changes(patch: PatchRef | None) -> Iterator[Line]:
    if patch is None or not patch.files:
        yield "changed", "nothing"
        return
    files = f"{len(patch.files)} file{'s' if len(patch.files) > 1 else ''}"
    yield "changed", f"{files}, +{patch.added} −{patch.removed}"
    for file in patch.files[:MAX_FILES]:
        counts = "binary" if file.added is None else f"+{file.added} −{file.removed}"
        name = f"{file.old_path} → {file.path}" if file.old_path else file.path
        yield "", f"{file.status} {name}  {counts}"
    if more := max(0, len(patch.files) - MAX_FILES):
        yield "", f"… {more} more"


def _tests(gates: tuple[GateVerdict, ...]) -> Iterator[Line]:
    for gate in gates:
        yield "gate", f"{gate_name(gate)}: {verdict_text(gate)}"


def _evidence(evidence: GateEvidence) -> Iterator[Line]:
    """What the gate found beside its counts. The first objection is the reason, which stands elsewhere."""
    yield from (("gate", note) for note in evidence.notes)
    yield from (("objection", objection.message) for objection in evidence.objections[1 : 1 + MAX_TROUBLES])


def _troubles(result: TaskResult, reasons: list[str]) -> Iterator[Line]:
    """The first error is the headline; the others follow. `reasons`: why what is done is not proved."""
    yield from (("not proved", reason) for reason in reasons)
    troubles = [error.message for error in result.errors[1:]]
    yield from (("not done" if index == 0 else "", text) for index, text in enumerate(troubles[:MAX_TROUBLES]))


def _warnings(warnings: tuple[WarningRaised, ...]) -> Iterator[Line]:
    yield from (("warning", warning.message) for warning in warnings[:MAX_TROUBLES])


def _spent(view: Session, result: TaskResult, cap_microusd: int | None) -> Iterator[Line]:
    cost = max(view.cost_microusd, result.metrics.cost_microusd)
    cap = f" of {dollars(cap_microusd)}" if cap_microusd is not None else ""
    used = view.usage.total_tokens
    yield "cost", f"{dollars(cost)}{cap}{f', {tokens(used)}' if used else ''}"
    if result.metrics.latency_ms:  # it has begun
        yield "time", duration(result.metrics.latency_ms)


def _repository(repository: RepositoryReport) -> Iterator[Line]:
    counts = [
        (repository.count("applied"), "merged"),
        (repository.count("empty"), "unchanged"),
        (repository.count("collision"), "in collision"),
        (repository.count("failed", "set_aside"), "not done"),
    ]
    reused = sum(shard.reused for shard in repository.shards)
    counted = ", ".join(f"{count} {name}" for count, name in counts if count) or "none"
    yield "shards", f"{repository.name}: {counted}{f' ({reused} as before)' if reused else ''}"
    yield from _changes(repository.patch)
    yield from _tests(tuple(gate for gate in (repository.before, repository.after) if gate is not None))
    yield from _evidence(repository.evidence)
    for collision in repository.collisions[:MAX_TROUBLES]:
        others = ", ".join(collision.with_keys) or "the base"
        yield "collision", f"{collision.key} with {others} in {', '.join(collision.paths)}"
    if not repository.verified and repository.reason:
        yield "not proved", f"{repository.name}: {repository.reason}"


def _causes(report: BatchReport) -> Iterator[Line]:
    """Like with like, and what may mend it; of patches that met in one place their repositories tell."""
    found = [cause for cause in causes(report) if cause.kind is not None]
    for cause in found[:MAX_TROUBLES]:
        cut = "…" if len(cause.detail) > DETAIL_CHARS else ""
        yield "not done", f"{len(cause.shards)} × {cause.code}: {cause.detail[:DETAIL_CHARS]}{cut}"
        keys = [f"{name}:{shard.key}" for name, shard in cause.shards[:MAX_SHARDS]]
        more = len(cause.shards) - len(keys)
        yield "", f"{', '.join(keys)}{f' and {more} more' if more else ''}"
        yield "", f"muster task logs {cause.shards[0][1].task_id}; {cause.next}"
    if left := sum(len(cause.shards) for cause in found[MAX_TROUBLES:]):
        yield "", f"… {counted(left, 'shard')} more, for other causes"


def _next(result: TaskResult, repository: Path | None = None) -> tuple[str, ...]:
    changed = result.patch is not None and bool(result.patch.files)
    apply = ("", "apply it here") if repository is None else (f" --repo {quote(str(repository))}", "apply it")
    about = {"diff": ("", "see the change"), "apply": apply, "logs": ("", "how it went")}
    words = about if changed else ("logs",)
    return tuple(f"muster task {word} {result.task_id}{about[word][0]}   # {about[word][1]}" for word in words)
