"""A suite with its cases' code, before anything of it is submitted."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from envelope.messages import Workspace
from envelope.wire import Wire
from repo.content import files_of
from repo.cover import Layer, bundle_layers, files_in
from repo.fast_import import NewFile
from repo.local import Place, locate
from repo.temporary import temporary_folder
from transport.blobs.base import Blobs

from ..batch.plan import Sources, start_of
from ..batch.starts import Start
from ..errors import BadBatchFile
from ..records import Records
from ..settings import Settings
from ..submit import HiddenTests
from .matrix import Sample, samples_of, variants_of
from .request import CaseInput
from .spec import Case, Source, SuiteSpec, Variant
from .work import sample_cap_of

Files = Mapping[str, NewFile]
# What the commits say that are made of plain files.
CODE, TESTS = "the code of a case", "hidden tests"


class EvalPreview(Wire):
    """What a suite would do. `max_cost_microusd` is what all samples together may spend, and `cap_microusd` what the
    suite never exceeds, also where tries are lost and made again; 0 where no model is asked.
    `sample_microusd`: what each may spend; None where cases differ."""

    name: str
    cases: tuple[str, ...]
    variants: tuple[str, ...]
    tries: int
    samples: int
    concurrency: int
    max_cost_microusd: int
    cap_microusd: int
    sample_microusd: int | None
    recorded: bool = False


@dataclass(frozen=True, slots=True)
class PlannedSuite:
    """`starts`: where the code of each case is, or the files that are all of it. `hidden`: its tests, by path."""

    file: Path
    spec: SuiteSpec
    variants: tuple[Variant, ...]
    starts: Mapping[str, Start | Files]
    hidden: Mapping[str, Files]

    @property
    def samples(self) -> Sequence[Sample]:
        return samples_of(self.spec, self.variants)

    def sample_caps(self, settings: Settings) -> list[int]:
        """What each sample may spend."""
        whole, samples = self.spec.limits.budget_microusd(settings.budget_microusd), self.samples
        return [sample_cap_of(self.spec, sample.case, whole, len(samples)) or 0 for sample in samples]

    def preview(self, settings: Settings, *, recorded: bool = False) -> EvalPreview:
        """As `Evals.preview`."""
        cap = self.spec.limits.budget_microusd(settings.budget_microusd)
        caps = self.sample_caps(settings)
        each = None if recorded or len(set(caps)) > 1 else caps[0]
        return EvalPreview(
            name=self.spec.name,
            cases=tuple(case.name for case in self.spec.cases),
            variants=tuple(variant.name for variant in self.variants),
            tries=self.spec.samples,
            samples=len(caps),
            concurrency=self.spec.limits.concurrency,
            max_cost_microusd=0 if recorded else min(cap, sum(caps)),
            cap_microusd=0 if recorded else cap,
            sample_microusd=each,
            recorded=recorded,
        )


async def planned(spec: SuiteSpec, file: Path, settings: Settings, sources: Sources = Sources()) -> PlannedSuite:
    """Every case is looked at: code that is not there is said now. `file`: what paths are relative to."""
    starts: dict[str, Start | Files] = {}
    hidden: dict[str, Files] = {}
    known: dict[Source, Start | Files] = {}
    for case in spec.cases:
        source = case.repository or spec.repository
        assert source is not None  # the form has seen to it
        if source not in known:
            known[source] = await _code_of(source, file, settings, sources)
        starts[case.name] = known[source]
        if case.hidden is not None:
            hidden[case.name] = await _hidden_of(case, file, source, known[source])
    return PlannedSuite(file, spec, variants_of(spec), starts, hidden)


async def _code_of(source: Source, file: Path, settings: Settings, sources: Sources) -> Start | Files:
    if source.folder is None:
        forges = settings.forges if sources.forges is None else sources.forges
        return await start_of(source, file, settings.cache_dir, forges, sources)
    return await _files_of(file.parent / source.folder, file, "folder")


async def _hidden_of(case: Case, file: Path, source: Source, code: Start | Files) -> Files:
    """`BadBatchFile` where the agent would see them all the same."""
    assert case.hidden is not None
    folder = file.parent / case.hidden
    tests = await _files_of(folder, file, f"hidden of the case {case.name!r}")
    root = code.folder if isinstance(code, Start) else file.parent / (source.folder or "")
    if root is not None and folder.resolve().is_relative_to(root.resolve()):
        inside = folder.resolve().relative_to(root.resolve()).as_posix()
        there = await files_of(code.git_dir, code.base) if isinstance(code, Start) else list(code)
        if seen := next((path for path in there if inside == "." or path.startswith(f"{inside}/")), ""):
            message = f"{file}: the hidden tests of {case.name!r} are in its repository, as {seen}"
            raise BadBatchFile(message, hint="put the folder elsewhere, or do not commit it there")
    return tests


async def _files_of(folder: Path, file: Path, what: str) -> Files:
    found = await asyncio.to_thread(files_in, folder)
    if not found:
        message = f"{file}: there is no folder with files at {folder} ({what})"
        raise BadBatchFile(message, hint="paths are relative to the suite file")
    return found


async def packed_cases(plan: PlannedSuite, muster: Records) -> dict[str, CaseInput]:
    """The code of all cases as blobs, each repository once."""
    given: dict[str, CaseInput] = {}
    done: dict[int, Workspace] = {}
    for name, start in plan.starts.items():
        if id(start) not in done:
            done[id(start)] = await _packed(start, muster)
        where = done[id(start)]
        assert where.bundle is not None
        hidden = (
            await _covered(plan.hidden[name], start, where, muster.transport.blobs) if name in plan.hidden else None
        )
        given[name] = CaseInput(bundle=where.bundle, base=where.base, hidden=hidden)
    return given


async def _packed(start: Start | Files, muster: Records) -> Workspace:
    if isinstance(start, Start):
        return await muster.pack(start.folder or await locate(start.git_dir), commit=start.base)
    return Workspace(**(await _bundled([Layer(CODE, start)], muster.transport.blobs)).model_dump())


async def _covered(tests: Files, start: Start | Files, where: Workspace, blobs: Blobs) -> HiddenTests:
    layer = Layer(TESTS, tests)
    if isinstance(start, Start):
        place = await locate(start.folder or start.git_dir)
        return await _bundled([layer], blobs, on=where.base, place=place)
    return await _bundled([Layer(CODE, start), layer], blobs)


async def _bundled(layers: Sequence[Layer], blobs: Blobs, *, on: str = "", place: Place | None = None) -> HiddenTests:
    with temporary_folder("case") as folder:
        file = folder / "case.bundle"
        *_, base = await bundle_layers(layers, file, on=on, place=place)
        return HiddenTests(bundle=await blobs.put(await asyncio.to_thread(file.read_bytes)), base=base)
