"""The variants of a suite, and the samples that they come to. Pure."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import BadBatchFile, near_miss
from .spec import MAX_SAMPLES, MAX_VARIANTS, PROMPT, Case, Matrix, SuiteSpec, Variant

SUITES_OWN = Variant(name="build")  # where a suite names none


@dataclass(frozen=True, slots=True)
class Sample:
    """One try of a case by a variant; `number` counts from 1."""

    case: Case
    variant: Variant
    number: int

    @property
    def key(self) -> str:
        return f"{self.case.name}/{self.variant.name}/{self.number}"


def variants_of(spec: SuiteSpec) -> tuple[Variant, ...]:
    """Those of the matrix, then those that are written out. `BadBatchFile` for names that meet, or lead nowhere."""
    count = (math.prod(map(len, _axes(spec.matrix))) if spec.matrix else 0) + len(spec.variants)
    if count > MAX_VARIANTS:
        raise BadBatchFile(f"the suite comes to {count} variants, more than {MAX_VARIANTS}", hint="make several of it")
    found = (*(_combined(spec.matrix) if spec.matrix else ()), *spec.variants) or (SUITES_OWN,)
    names = [variant.name for variant in found]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadBatchFile(f"two variants are named {twice!r}", hint="give those of [[variants]] other names")
    for variant in found:
        if variant.prompt and variant.prompt not in spec.prompts:
            message = f"the variant {variant.name!r} names the prompt {variant.prompt!r}, which is not in [prompts]"
            raise BadBatchFile(message, hint=near_miss(variant.prompt, spec.prompts))
    for key, name in (("baseline", spec.baseline), ("require.variant", spec.require.variant)):
        if name and name not in names:
            raise BadBatchFile(f"{key} names {name!r}, which is no variant", hint=near_miss(name, names))
    return found


def samples_of(spec: SuiteSpec, variants: Sequence[Variant]) -> list[Sample]:
    """Each variant's first tries of all cases before its second ones: where money ends, it ends for all alike."""
    count = spec.samples * len(spec.cases) * len(variants)
    if count > MAX_SAMPLES:
        raise BadBatchFile(f"the suite comes to {count} samples, more than {MAX_SAMPLES}", hint="make several of it")
    numbers = range(1, spec.samples + 1)
    return [Sample(case, variant, number) for number in numbers for case in spec.cases for variant in variants]


def prompt_of(spec: SuiteSpec, sample: Sample) -> str:
    template = spec.prompts.get(sample.variant.prompt, PROMPT)
    return template.replace(PROMPT, sample.case.prompt)


def _combined(matrix: Matrix) -> Iterator[Variant]:
    """Named by what tells one from the others.

    >>> [one.name for one in _combined(Matrix(model=("openai/a", "openai/b"), temperature=(0.0, 0.5)))]
    ['openai-a_0.0', 'openai-a_0.5', 'openai-b_0.0', 'openai-b_0.5']
    """
    axes = _axes(matrix)
    for model, agent, prompt, temperature in itertools.product(*axes):
        values = (model, agent, prompt, temperature)
        telling = [value for axis, value in zip(axes, values, strict=True) if len(axis) > 1]
        name = "_".join(_tidy(value) for value in telling) or _tidy(model or agent)
        yield Variant(name=name[:80], model=model, agent=agent, prompt=prompt, temperature=temperature)


def _axes(matrix: Matrix) -> tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[float | None]]:
    return matrix.model, matrix.agent, matrix.prompt, matrix.temperature


def _tidy(value: object) -> str:
    said = "default" if value is None or value == "" else str(value)
    return re.sub(r"[^A-Za-z0-9_.-]", "-", said).lstrip(".-") or "default"
