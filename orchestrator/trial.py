"""A change before its gate: which runs are made, what speaks against it, and what is proved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from envelope.errors import ErrorCode
from envelope.events import GateVerdict
from envelope.gate import MAX_NAMES, GateEvidence, GateObjection
from envelope.ids import BlobRef
from envelope.messages import ErrorInfo
from envelope.tracing.names import GATE, GATE_RESULT
from envelope.tracing.spans import span
from repo.errors import PatchRefused
from repo.patch import apply_to_tree

from .driver import Work
from .gate import AGAIN, Gate
from .gating.change import Inspection, inspect, needs_its_settings
from .gating.control import BaseRun, control_notes
from .gating.diff import FilePatch, without
from .gating.known_ends import unclear_ends
from .gating.lost_tests import NOTHING_LIFTED, Lifted, lifted_by
from .gating.obsolete_tests import NONE_OBSOLETE, ObsoleteTests, obsolete_tests
from .gating.run import Phase, Run, lost_tests
from .gating.text import excused_text, listed
from .gating.trees import Trees
from .judgement import (
    Judgement,
    broken_base,
    does_not_fit,
    is_acceptable,
    new_failures,
    objections,
    with_old_tests,
)

UNNAMED = "a test without a name"
LAST = "what was verified last"  # of a session, as people read it


@dataclass(frozen=True, slots=True)
class Proof:
    """The gate's runs, as far as there were any, and what they prove. `failure`: why one could not be made."""

    judgement: Judgement
    before: GateVerdict | None = None
    after: GateVerdict | None = None
    evidence: GateEvidence = field(default_factory=GateEvidence)
    failure: ErrorInfo | None = None


NO_GATE = Proof(Judgement(False, "no gate is configured (muster init guesses one)"))


def refused(before: Run, objection: GateObjection) -> Proof:
    """Of a goal, or a repository of a batch, that ends before anybody is paid."""
    seen, message, hint = before.verdict("before"), objection.message, objection.hint
    evidence = GateEvidence(result="rejected", objections=(objection,), runs=(seen,))
    failure = ErrorInfo.of(ErrorCode.BROKEN_BASE, message, hint)
    return Proof(Judgement(False, message, hint), seen, evidence=evidence, failure=failure)


@dataclass(frozen=True, slots=True)
class VerifiedBase:
    """A session's change as it was verified last, which counts as a base beside the session's own.

    `gate` runs on it, `run` is what it saw there; `diff` is what has been changed since, as far as that is known.
    """

    gate: Gate
    run: Run
    diff: bytes


async def prove(
    gate: Gate,
    before: Run,
    *,
    changes: BlobRef | None,
    tree: str,
    restored: Sequence[str] = (),
    verified_base: Callable[[], Awaitable[VerifiedBase | str | None]] | None = None,
) -> Proof:
    """Run the gate on the base with `changes`, whose tree is `tree`, and judge. Without any the base is judged, which
    proves nothing of anybody's work.

    `restored`: what was left out of the change because it is outside of the edit scope. An empty `tree` is one that
    nobody could know. `verified_base`: asked once nothing speaks against the change on its base; a text says why there
    is none.
    """
    with span(GATE) as proving:
        trial = Trial(gate, before)
        if changes is None:
            trial.judge_base(tree)
        else:
            await trial.judge_change(changes, tree)
        if verified_base is not None and not trial.objections:
            match await verified_base():
                case VerifiedBase() as verified:
                    await trial.judge_since(verified, changes, tree)
                case why:
                    trial.unseen = why or ""
        proof = trial.proof(restored)
        proving.set({GATE_RESULT: proof.evidence.result})
    gate.driver.context.metrics.count_verdict(verified=proof.judgement.verified)
    return proof


async def accepts(gate: Gate, before: Run, after: Run, *, changes: BlobRef, tree: str) -> bool:
    """Does this run speak for the change? Whether the change may be made is asked later, of the whole."""
    diff, trees = await gate.driver.transport.blobs.get(changes), await gate.trees(tree)
    trial = Trial(gate, before, after, await _inspected(gate, diff, trees, before))
    trial.lifted, trial.obsolete = await _lifted(gate, trial.change, before, after, trees)
    trial.unclear = await _unclear(gate, trees, before)
    return not trial.against(before, after, tree)


async def _unclear(gate: Gate, trees: Trees, before: Run) -> Mapping[str, str]:
    """Where nothing fails on the base nothing is excused."""
    if before.passed:
        return {}
    return await gate.driver.aside(lambda: asyncio.run(unclear_ends(gate.commands, trees, gate.workspace.subpath)))


async def _inspected(gate: Gate, diff: bytes, trees: Trees, before: Run) -> Inspection:
    """What the base's run took for tests counts as such."""
    looking = partial(
        inspect,
        diff,
        trees,
        commands=gate.commands,
        subpath=gate.workspace.subpath,
        rules=gate.rules,
        scope=gate.scope,
        base_run=BaseRun.of(before.steps),
    )
    return await gate.driver.aside(lambda: asyncio.run(looking()))


async def _lifted(
    gate: Gate, change: Inspection, before: Run, after: Run, trees: Trees
) -> tuple[Lifted, ObsoleteTests]:
    """Of the tests that are lost those that may be: a grant names them, or what they tested is gone as well.

    The latter only where the tests beside them can be compared with the base one by one.
    """
    lost, subpath = lost_tests(before, after), gate.workspace.subpath
    by_file = any(step.digest and step.digest.is_by_file for step in (*before.steps, *after.steps))

    async def looking() -> tuple[Lifted, ObsoleteTests]:
        obsolete = NONE_OBSOLETE
        lifted = await lifted_by(change.grants, lost, trees, subpath=subpath, rules=gate.rules)
        if (lost.gone or lost.fewer > 0) and not by_file:
            obsolete = await obsolete_tests(change.grants, change.parts, trees, subpath=subpath)
        return obsolete.let_go(lost, lifted), obsolete

    return await gate.driver.aside(lambda: asyncio.run(looking()))


@dataclass(slots=True)
class Trial:
    """One change before its gate: the runs, and what speaks against it."""

    gate: Gate
    before: Run
    after: Run | None = None
    change: Inspection = field(default_factory=Inspection)
    lifted: Lifted = NOTHING_LIFTED
    obsolete: ObsoleteTests = NONE_OBSOLETE
    objections: list[GateObjection] = field(default_factory=list[GateObjection])
    notes: list[str] = field(default_factory=list[str])
    flaky: set[str] = field(default_factory=set[str])
    unclear: Mapping[str, str] = field(default_factory=dict[str, str])  # commands whose ends tell too little
    runs: list[GateVerdict] = field(default_factory=list[GateVerdict])
    is_since: bool = False  # has it been compared with what was verified before, too?
    unseen: str = ""  # what ought to have been compared, and was not
    base: str = ""  # what counts as the base, in words, where it is another than the gate's own

    def judge_base(self, tree: str) -> None:
        self.after = self.before
        self.runs.append(self.before.verdict("before"))
        self.objections += self.against(self.before, self.after, tree)

    async def judge_change(self, changes: BlobRef | None, tree: str, *, since: bytes = b"") -> None:
        """Inspect the change and run the gate on it; without an objection, also with the tests of before.

        `base`, where it is set: then `after` is known, and `since` is what of the change is new to it.
        """
        gate, rules = self.gate, self.gate.rules
        diff = await gate.driver.transport.blobs.get(changes) if changes and not self.base else since
        trees = await gate.trees(tree)
        if diff:
            self.change = await _inspected(gate, diff, trees, self.before)
        self.notes += self.change.notes
        self.runs.append(self.before.verdict("before", self.base))
        self.unclear = await _unclear(gate, trees, self.before)
        self.after = await self._settled(changes, "", first=self.after)
        self.lifted, self.obsolete = await _lifted(gate, self.change, self.before, self.after, trees)
        self.objections += self.against(self.before, self.after, tree)
        self.objections += self.change.objections
        self.notes += self.lifted.notes
        judges = any(part not in self.obsolete.parts for part in self.change.judged)
        if not self.objections and judges and not self._unproved():
            await self._judge_with_old_tests(diff, trees, self.after)
        if not self.objections and self.change.steering and not self._unproved():
            await self._judge_with_old_settings(diff, trees, self.after)
        if not self.objections and rules.repeat > 1:
            await self._repeat(changes, tree)
        if not self.objections and rules.clock:
            await self._move_clock(changes, tree)
        self._tell_of_flaky()

    async def judge_since(self, verified: VerifiedBase, changes: BlobRef | None, tree: str) -> None:
        """The same as a change of what was verified before: what that has proved must not be lost."""
        trial = Trial(verified.gate, verified.run, self.after, base=LAST)
        await trial.judge_change(changes, tree, since=verified.diff)
        self.after, self.is_since = trial.after, True
        self.runs += trial.runs
        self.flaky |= trial.flaky
        self.notes += [f"since {LAST}: {note}" for note in trial.notes]
        self.objections += [objection.about(f"since {LAST}") for objection in trial.objections]

    def proof(self, restored: Sequence[str]) -> Proof:
        """What was found, once the change is judged; `restored`: test files that were put back first."""
        before, after = self.before, self.after
        assert after is not None
        first = next(iter(self.objections), None)
        said = "; ".join(filter(None, (excused_text(after.failed), self.unseen)))
        judgement = self._unproved() or Judgement(True, said)
        if first is not None:
            judgement = Judgement(False, first.message, first.hint)
        known = sorted((after.failing or frozenset[str]()) & (before.failing or frozenset[str]()))
        if self._unproved():  # what did not run is like itself, and excuses nothing
            known = []
        fresh = new_failures(before, after) if after is not before else None
        is_work = after is not before or self.is_since
        result = "verified" if judgement.verified else "rejected" if first and is_work else "done"
        evidence = GateEvidence(
            result=result,
            objections=tuple(self.objections),
            notes=(*self._notes(known, restored), *self.notes, *control_notes(after.steps)),
            test_files=self.change.test_files[:MAX_NAMES],
            restored=tuple(restored[:MAX_NAMES]),
            new_failures=tuple(sorted(fresh or ()))[:MAX_NAMES],
            known_failures=tuple(known[:MAX_NAMES]),
            flaky=tuple(sorted(self.flaky))[:MAX_NAMES],
            runs=tuple(self.runs),
        )
        return Proof(judgement, before.verdict("before"), after.verdict("after"), evidence)

    def against(self, before: Run, after: Run, tree: str, about: str = "") -> list[GateObjection]:
        """All that speaks against a run on the change. `about`: what it was for, if it is not the first."""
        gate = self.gate
        found = objections(
            before,
            after,
            tree=tree,
            min_tests=gate.min_tests,
            rules=gate.rules,
            lifted=self.lifted,
            needs_base=gate.needs_base,
            touched=self._touched,
            unclear=self.unclear,
        )
        return [objection.about(about) for objection in found] if about else found

    @property
    def _touched(self) -> Collection[str]:
        """Files whose code may be other than on the base. One that only loses tests has the others as they were."""
        return self.change.touched.difference(path for part in self.obsolete.parts for path in part.paths)

    def _unproved(self) -> Judgement | None:
        """A person let the work go on although the gate cannot run on the base: there is nothing to compare with."""
        obstacle = self.before.obstacle(self.gate.min_tests) if self.gate.needs_base else None
        if obstacle is None:
            return None
        return Judgement(False, broken_base(obstacle).message, obstacle.hint)

    async def _settled(
        self, changes: BlobRef | None, about: str, reference: Run | None = None, *, first: Run | None = None
    ) -> Run:
        """The run that counts: a new failure is looked at again, each time in a fresh sandbox.

        `reference`: what may fail, if not what the base fails. `first`: the first run, if it was made already.
        """
        gate = self.gate
        first = run = first or await self._run("after", gate.after(changes, about), about)
        if reference is None and not run.passed and self._accepts(run) and gate.rules.reruns:
            await self._look_at_base_again()
        # who asks for several green runs does not take one that came late for the first
        for number in range(gate.rules.reruns if gate.rules.repeat == 1 else 0):
            if self._accepts(run, reference) or not run.fails_by_tests_alone:
                break
            told = ", ".join(filter(None, (about or self.base, f"{AGAIN} ({number + 1})")))
            run = await self._run("after", gate.after(changes, told), told)
        if run is not first and self._accepts(run, reference):
            self.flaky |= (first.failing or frozenset()) - (run.failing or frozenset()) or {UNNAMED}
        return run

    def _accepts(self, run: Run, reference: Run | None = None) -> bool:
        return is_acceptable(reference or self.before, run, self.gate.rules, self.unclear)

    async def _look_at_base_again(self) -> None:
        """The change fails where the base did. If that was bad luck there, it excuses nothing here."""
        again = await self._run("before", self.gate.before_again(), AGAIN)
        mended, worse = new_failures(again, self.before), new_failures(self.before, again)
        if mended is None or worse is None:
            return
        if unsteady := sorted(mended | worse):
            self.notes.append(f"flaky on the base: {listed(unsteady)}")
        if mended:
            self.before = again

    async def _judge_with_old_tests(self, diff: bytes, trees: Trees, after: Run) -> None:
        """The change edits tests that nobody asked it to edit: it must pass with those of the base, too."""
        gate, parts = self.gate, self._judged
        edited = [path for part in parts for path in part.paths]
        found = await self._run_without(parts, diff, trees, f"with the tests of {self.base or 'the base'}", after)
        if found is None:  # a file of tests has become a folder, or the other way round
            self.objections.append(does_not_fit(edited, gate.rules))
            return
        run, tree = found
        lifted = self.obsolete.let_go(lost_tests(self.before, run))
        self.objections += with_old_tests(
            self.before,
            after,
            run,
            tree=tree,
            rules=gate.rules,
            edited=edited,
            lifted=lifted,
            touched=self._touched,
            unclear=self.unclear,
        )
        if not self.objections:
            self.notes.append(f"with the tests as {self.base or 'the base'} has them the gate passes as well")

    async def _judge_with_old_settings(self, diff: bytes, trees: Trees, after: Run) -> None:
        """The change edits files that nobody knows to be harmless: it must pass with those of the base, too, for a
        runner, or what it starts, may obey them."""
        steering, judged = self.change.steering, self._judged
        edited = [path for part in steering for path in part.paths]
        about = f"with other files of {self.base or 'the base'}"
        found = await self._run_without((*steering, *judged), diff, trees, about, after)
        if found is None:
            self.objections.append(needs_its_settings(edited, self.gate.rules))
            return
        run, tree = found
        if tree and run.tree != tree:
            self.objections += self.against(self.before, run, tree, about)
            return
        against = with_old_tests(
            self.before,
            after,
            run,
            tree=tree,
            rules=self.gate.rules,
            edited=edited,
            lifted=self.obsolete.let_go(lost_tests(self.before, run)) if judged else self.lifted,
            touched=self._touched,
            unclear=self.unclear,
        )
        if against:
            self.objections.append(needs_its_settings(edited, self.gate.rules, against[0].names))
        else:
            self.notes.append(f"with {listed(edited)} as {self.base or 'the base'} has it the gate passes as well")

    @property
    def _judged(self) -> Sequence[FilePatch]:
        """Edits of tests that nobody granted."""
        obsolete = frozenset(self.obsolete.parts)
        return tuple(dict.fromkeys(part for part in self.change.judged if part not in obsolete))

    async def _run_without(
        self, parts: Sequence[FilePatch], diff: bytes, trees: Trees, about: str, after: Run
    ) -> tuple[Run, str] | None:
        """What the gate sees on the change without these parts of it, and the tree of that; None where the rest cannot
        be without them."""
        gate, left_out = self.gate, frozenset(parts)
        rest, _ = await gate.driver.aside(lambda: without(diff, lambda part: part in left_out))
        if not rest:
            return self.before, ""
        try:
            tree = await apply_to_tree(trees.mirror.git_dir, trees.base, rest) if trees.mirror else ""
        except PatchRefused:
            return None
        changes = await gate.stored(rest, trees, tree)
        return await self._settled(changes, about, reference=after), tree

    async def _repeat(self, changes: BlobRef | None, tree: str) -> None:
        """The further runs that have to pass as well: the first that does not is the last."""
        count = self.gate.rules.repeat
        for number in range(2, count + 1):
            about = f"run {number} of {count}"
            run = await self._run("after", self.gate.after(changes, about), about)
            if found := self.against(self.before, run, tree, about):
                self.objections += found
                return
        self.notes.append(f"{count} of {count} runs pass")

    async def _move_clock(self, changes: BlobRef | None, tree: str) -> None:
        """A run later in time, beside the base's at that time: what fails there too is not the change's."""
        gate = self.gate
        about = f"with the clock at {gate.rules.clock}"
        before = await self._run("before", gate.moved("before", None, about), about)
        if any(step.clock != "moved" for step in before.steps):
            message = f"the gate's clock cannot be moved by {gate.rules.clock}: its image has no libfaketime"
            hint = "use an image with libfaketime (Debian's package of that name), or leave the rule clock out"
            self.objections.append(GateObjection.of("failed", message, hint))
            return
        run = await self._run("after", gate.moved("after", changes, about), about)
        self.objections += self.against(before, run, tree, about)
        if not self.objections:
            self.notes.append(f"{about} the gate passes as well")

    def _tell_of_flaky(self) -> None:
        if not self.flaky:
            return
        names = listed(sorted(self.flaky))
        if self.gate.rules.flaky == "reject":
            message = f"tests failed, and passed when they were run again: {names}"
            hint = "make them steady, or set the gate's flaky to allow"
            self.objections.append(GateObjection.of("flaky", message, hint, sorted(self.flaky)))
        else:
            self.notes.append(f"flaky: {names} failed, and passed when run again in a fresh sandbox")

    def _notes(self, known: Sequence[str], restored: Sequence[str]) -> list[str]:
        notes = self.gate.setup_notes(self.after) if self.after else []
        if files := self.change.test_files:
            added, removed = sum(file.added for file in files), sum(file.removed for file in files)
            names = listed([f"{file.status} {file.path}" for file in files])
            count = f"{len(files)} test file{'s' if len(files) > 1 else ''}"
            notes.append(f"the change edits {count}, +{added} −{removed}: {names}")
        if restored:
            notes.append(f"restored from the base, since outside of the edit scope: {listed(list(restored))}")
        if known:
            notes.append(f"fails as on the base: {listed(list(known))}")
        return notes

    async def _run(self, phase: Phase, work: Work, about: str) -> Run:
        run = await self.gate.run(phase, work, about)
        self.runs.append(run.verdict(phase, about))
        return run
