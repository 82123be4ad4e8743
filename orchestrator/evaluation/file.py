"""Suite files: TOML or YAML, by suffix. What is wrong is said with the file, the line and the field."""

from __future__ import annotations

from pathlib import Path

from ..batch.file import checked, language_of, text_of, values_in
from ..errors import BadBatchFile
from .matrix import samples_of, variants_of
from .spec import SuiteSpec


def load_suite(path: Path) -> SuiteSpec:
    """`BadBatchFile` for what is no suite."""
    return parse_suite(text_of(path, hint="give the path of a suite file (.toml, .yaml)"), name=str(path))


def parse_suite(text: str, *, name: str = "suite.toml") -> SuiteSpec:
    """As `load_suite`, from text; `name` is the file's, whose suffix says which language it is in."""
    values = values_in(text, language_of(name), name)
    spec = checked(SuiteSpec, values, text, name, hint="examples/evaluation/suite.toml is a complete suite")
    try:
        samples_of(spec, variants_of(spec))
    except BadBatchFile as e:
        raise BadBatchFile(f"{name}: {e.message}", hint=e.hint) from e
    return spec
