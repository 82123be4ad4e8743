"""What a suite file says. Unknown keys are refused: a person wrote them and meant something."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, model_validator

from envelope.budget import MICROUSD_PER_USD
from envelope.gate import GateRules, Policy

from ..batch.part import FileName, Part, Seconds, Text, Texts
from ..batch.spec import Repository

PROMPT = "{prompt}"  # stands for the case's in a template
MAX_SAMPLES = 5_000  # of a whole suite: each is a line of the report, and a goal of its own
MAX_VARIANTS = 100  # a table that people read, and a result that travels

Usd = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Names = Annotated[tuple[str, ...], Field(min_length=1)]  # an empty one is the default's
Share = Annotated[float, Field(ge=0, le=1)]
Temperature = Annotated[float, Field(ge=0, le=2, allow_inf_nan=False)]


class Source(Repository):
    """The code of a case: `path` of a repository, or its `url`, or a plain `folder`, of whose files one commit is made.

    Paths are relative to the suite file. `base`: a branch, tag or commit.
    """

    folder: Text | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if sum(getattr(self, way) is not None for way in ("path", "url", "folder", "bundle")) != 1:
            raise ValueError("say one of `path`, `url` and `folder`")
        if self.list is not None or self.organisation is not None or self.bundle is not None:
            raise ValueError("a case is of one repository: say `path`, `url` or `folder`")
        if self.folder is not None and self.base:
            raise ValueError("a `folder` has no commits, and no `base`")
        return self


class EvalGate(GateRules):
    """As a goal's gate, but all tests must pass: what a case asks for may well be that a test fails no more."""

    commands: Texts
    min_tests: Annotated[int, Field(ge=0)] = 1
    known_failures: Policy = "reject"

    def rules(self) -> GateRules:
        return GateRules.model_validate(self.model_dump(exclude={"commands", "min_tests"}))


class Case(Part):
    """One task. `hidden`: a folder with tests, put over the repository's files where the gate runs and nowhere else.

    What is not said here is the suite's.
    """

    name: FileName
    prompt: Text
    repository: Source | None = None
    setup: tuple[Text, ...] | None = None
    gate: EvalGate | None = None
    hidden: Text | None = None
    budget_usd: Usd | None = None
    deadline_s: Seconds | None = None


class Variant(Part):
    """Who tries the cases. `model`: empty is the workers' own. `prompt` names one of the suite's `prompts`."""

    name: FileName
    model: str = ""
    agent: Text = "build"
    prompt: str = ""
    temperature: Temperature | None = None


class Matrix(Part):
    """Each combination is a variant."""

    model: Names = ("",)
    agent: Texts = ("build",)
    prompt: Names = ("",)
    temperature: Annotated[tuple[Temperature | None, ...], Field(min_length=1)] = (None,)


class Limits(Part):
    """`budget_usd`: of the whole; `sample_budget_usd`, `sample_deadline_s`: of each sample. `concurrency`: at once."""

    budget_usd: Usd | None = None
    sample_budget_usd: Usd | None = None
    deadline_s: Seconds | None = None
    sample_deadline_s: Seconds | None = None
    concurrency: Annotated[int, Field(ge=1, le=1000)] = 4

    def budget_microusd(self, default: int) -> int:
        return default if self.budget_usd is None else round(self.budget_usd * MICROUSD_PER_USD)


class Require(Part):
    """What is too little: below it the command ends with exit code 1. `variant`: whose; empty: each one's."""

    min_pass_at_1: Share | None = None
    min_pass_at_n: Share | None = None
    max_usd_per_accepted: Usd | None = None
    variant: str = ""


class SuiteSpec(Part):
    """`samples`: how often each variant tries each case. `baseline`: the variant that the others are compared with;
    the first, by default."""

    name: FileName
    samples: Annotated[int, Field(ge=1, le=100)] = 1
    baseline: str = ""
    repository: Source | None = None
    setup: tuple[Text, ...] = ()
    gate: EvalGate | None = None
    prompts: dict[FileName, Text] = Field(default_factory=dict[FileName, Text])
    matrix: Matrix | None = None
    variants: tuple[Variant, ...] = ()
    cases: Annotated[tuple[Case, ...], Field(min_length=1)]
    limits: Limits = Limits()
    require: Require = Require()

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        _once("case", [case.name for case in self.cases])
        for name, template in self.prompts.items():
            if PROMPT not in template:
                raise ValueError(f"prompts.{name} has no {PROMPT}: each case would be asked the same")
        for case in self.cases:
            if case.repository is None and self.repository is None:
                raise ValueError(f"the case {case.name!r} has no `repository`, nor has the suite")
            if case.gate is None and self.gate is None:
                raise ValueError(f"the case {case.name!r} has no `gate`, nor has the suite: nothing would be judged")
        return self


def _once(what: str, names: Sequence[str]) -> None:
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise ValueError(f"two of the {what}s are named {twice!r}")
