"""The gate on what was merged; where it fails, the patch that makes it fail is found, and the rest lands without it.

Every run of the gate is a task with a content key: killed anywhere, this goes the same way again, at no run's cost.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from envelope.messages import ErrorInfo, PatchRef
from repo.merge import Landed, Merged
from repo.mirror import Mirror
from transport.blobs.base import Blobs

from ..errors import TaskFailed
from ..gate import Gate
from ..gating.run import Run
from ..judgement import Judgement
from ..repositories import reference
from ..trial import Proof, prove
from .merge import Blame
from .merge_rules import MergeRules

NO_GATE = Proof(Judgement(False, "no gate is configured ([gate] in the batch file)"))
NOTHING_LANDED = Judgement(False, "nothing landed, so there is nothing to verify")


@dataclass(frozen=True, slots=True)
class Proved:
    """What landed, and `patch`, its change; `blamed`: who was set aside for the gate's sake."""

    merged: Merged
    patch: PatchRef | None
    proof: Proof
    blamed: dict[str, Blame]


@dataclass(slots=True)
class Trials:
    """States of one repository before its gate; each tree is tried once.

    `before`: what the gate saw on the base; `failure`: why it could not be run there.
    """

    mirror: Mirror
    blobs: Blobs
    base: str
    rules: MergeRules
    gate: Gate | None
    before: Run | None
    failure: ErrorInfo | None = None
    _proofs: dict[str, Proof] = field(default_factory=dict[str, Proof])
    stopped_after: int = 0  # runs, of which a search found none left
    _runs: int = 0

    async def patch(self, commit: str) -> PatchRef | None:
        return await reference(self.mirror, self.blobs, self.base, commit) if commit != self.base else None

    async def proof(self, commit: str) -> Proof:
        """For the base no run is needed: the gate has been there. A gate that cannot be run has proved nothing."""
        if self.failure is not None:
            return _unproved(self.failure)
        if self.gate is None or self.before is None:
            return NO_GATE
        tree = await self.mirror.tree(commit)
        if tree not in self._proofs:
            patch = await self.patch(commit)
            changes = patch.diff if patch else None
            try:
                proof = await prove(self.gate, self.before, changes=changes, tree=tree)
            except TaskFailed as e:
                proof = _unproved(e.error)
            self._proofs[tree] = proof
            runs = sum(run.phase == "after" for run in proof.evidence.runs)
            self._runs += max(runs, patch is not None)  # one that was lost tells of no run
        return self._proofs[tree]

    async def culprit(self, landed: Sequence[Landed]) -> tuple[str, Blame] | None:
        """The first patch with which the gate fails, on a base where it does not.

        None also when runs ran out, or one could not be made: that is no patch's fault.
        """
        try:
            return await self._culprit(landed)
        except TaskFailed:
            return None

    async def _culprit(self, landed: Sequence[Landed]) -> tuple[str, Blame] | None:
        states = _states(landed, self.base)
        if self.gate is None or not states or self.rules.gate == "end":
            return None
        if self.rules.gate == "bisect" and await self._passes(states[-1].commit):
            return None
        if not await self._passes(self.base):
            return None
        first_bad = await (self._by_steps if self.rules.gate == "each" else self._by_halves)(states)
        if first_bad is None:
            return None
        proof = await self.proof(first_bad.commit)
        told = proof.judgement
        reason = f"set aside, since with it {told.reason}"
        return first_bad.key, Blame(reason, told.hint, proof.after, proof.evidence.objections)

    async def _by_halves(self, states: Sequence[Landed]) -> Landed | None:
        good, bad = -1, len(states) - 1  # the base passes, the last one does not
        while bad - good > 1:
            middle = (good + bad) // 2
            if not await self._may_prove(states[middle].commit):
                return None
            good, bad = (middle, bad) if await self._passes(states[middle].commit) else (good, middle)
        return states[bad]

    async def _by_steps(self, states: Sequence[Landed]) -> Landed | None:
        for state in states:
            if not await self._may_prove(state.commit):
                return None
            if not await self._passes(state.commit):
                return state
        return None

    async def _may_prove(self, commit: str) -> bool:
        """A state may take several runs: what fails is looked at again. What is known takes none."""
        if self._runs < self.rules.max_gate_runs or await self.mirror.tree(commit) in self._proofs:
            return True
        self.stopped_after = self._runs
        return False

    async def _passes(self, commit: str) -> bool:
        """`TaskFailed` when nobody can say."""
        proof = await self.proof(commit)
        if proof.failure is not None:
            raise TaskFailed(proof.failure)
        return proof.judgement.verified


def _unproved(failure: ErrorInfo) -> Proof:
    said = Judgement(False, f"the gate could not be run: {failure.message}", failure.hint)
    return Proof(said, failure=failure)


def _states(landed: Sequence[Landed], base: str) -> list[Landed]:
    """Those that made a commit."""
    before = [base, *(one.commit for one in landed)]
    return [one for one, earlier in zip(landed, before, strict=False) if one.commit != earlier]


async def prove_merge(trials: Trials, merge: Callable[[Collection[str]], Awaitable[Merged]]) -> Proved:
    """`merge` makes the line without some of the patches: one that was in their way may land then."""
    blamed: dict[str, Blame] = {}
    while True:
        merged = await merge(blamed)
        found = await trials.culprit(merged.landed)
        if found is None:
            proof, patch = await trials.proof(merged.commit), await trials.patch(merged.commit)
            told = _that_it_stopped(proof, trials.stopped_after) if trials.stopped_after else proof
            return Proved(merged, patch, told if patch else _of_nothing(told, blamed.values()), blamed)
        key, blame = found
        blamed[key] = blame


def _of_nothing(proof: Proof, blamed: Iterable[Blame]) -> Proof:
    """That the base passes its gate is nobody's work. What was set aside is all that there was: what speaks against it
    is why nothing landed."""
    if not proof.judgement.verified:
        return proof
    objections = tuple(objection for blame in blamed for objection in blame.objections)
    evidence = proof.evidence.model_copy(
        update={"result": "rejected" if objections else "done", "objections": objections}
    )
    return replace(proof, judgement=NOTHING_LANDED, after=None, evidence=evidence)


def _that_it_stopped(proof: Proof, runs: int) -> Proof:
    """Whatever the gate says of the whole."""
    note = f"the search for a patch with which the gate fails stopped after {runs} runs of it (merge.max_gate_runs)"
    return replace(proof, evidence=proof.evidence.model_copy(update={"notes": (*proof.evidence.notes, note)}))
