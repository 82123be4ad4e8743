"""Batch files: TOML or YAML, by suffix. What is wrong is said with the file, the line and the field."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar, cast, get_args

import yaml
from pydantic import BaseModel, ValidationError

from ..errors import BadBatchFile, near_miss
from ..publication.address import is_remote_name
from ..strange_toml import read_toml
from .looking import require_looking
from .spec import BatchSpec, Repository

MAX_FILE_BYTES = 1024 * 1024  # people write these by hand; the largest thing in them is a prompt
ADDRESS = re.compile(r"[\w.-]+@[\w.-]+:")  # as ssh writes it
LANGUAGES = {".toml": "TOML", ".yaml": "YAML", ".yml": "YAML"}
P = TypeVar("P", bound=BaseModel)
READERS: Mapping[str, Callable[[str], Any]] = {"TOML": read_toml, "YAML": yaml.safe_load, "JSON": json.loads}
UNKNOWN_KEY = "extra_forbidden"  # pydantic's word for it
# What pydantic says of Python's types, for people who write files.
PLAINLY = {"missing": "it is missing", "too_short": "it is empty", "tuple_type": "a list is wanted: [ … ]"}
HELP = "`muster batch init FILE` writes a complete one, `muster schema batch` prints every key"


def load_batch(path: Path, *, only_looks: bool = False) -> BatchSpec:
    """The batch in a file, with the lists beside it; `BadBatchFile` says what is wrong with it, and where.
    `only_looks`: `WouldWrite` for one that is to do more, before any other file is read.

    The lists become a part of the batch: what they say later is another batch.
    """
    spec = parse_batch(text_of(path, hint="give the path of a batch file (.toml, .yaml)"), name=str(path))
    if only_looks:
        require_looking(spec)
    if spec.shards.files_from is not None:
        files = _lines(path.parent / spec.shards.files_from, "shards.files_from")
        shards = spec.shards.model_copy(update={"files": files, "files_from": None})
        spec = spec.model_copy(update={"shards": shards})
    repositories = (one for repository in spec.repositories for one in _listed(repository, path))
    spec = spec.model_copy(update={"repositories": tuple(repositories)})
    require_own_remotes(spec, path)
    return spec


def require_own_remotes(spec: BatchSpec, file: Path) -> None:
    """At one address, each repository's branch would take the place of the last one's."""
    has_many = len(spec.repositories) > 1 or any(each.organisation is not None for each in spec.repositories)
    if has_many and spec.publish is not None and not is_remote_name(spec.publish.remote):
        hint = "leave it out: each goes to its `origin`, or where it was fetched from; or name a remote that each has"
        raise BadBatchFile(f"{file}: publish.remote: one address cannot be that of several repositories", hint=hint)


def _listed(repository: Repository, file: Path) -> list[Repository]:
    if repository.list is None:
        return [repository]
    source = Path(repository.list)
    lines = _lines(file.parent / source, "repositories.list")
    try:
        return [_repository(line, source.parent, repository) for line in lines]
    except ValidationError as e:
        fault = e.errors(include_url=False, include_context=False)[0]
        raise BadBatchFile(f"{source}: {fault['msg'].removeprefix('Value error, ')}") from e


def _repository(line: str, folder: Path, listed: Repository) -> Repository:
    """What looks like an address is one: `https://…`, `ssh://…`, `git@host:path`."""
    if "://" in line or ADDRESS.match(line):
        return Repository(url=line, base=listed.base, forge=listed.forge)
    return Repository(path=str(folder / line), base=listed.base, forge=listed.forge)


def _lines(source: Path, key: str) -> tuple[str, ...]:
    text = text_of(source, hint=f"{key} names a list beside the batch file, one a line")
    lines = tuple(dict.fromkeys(line for line in map(str.strip, text.splitlines()) if line))
    if not lines:
        what = "repository" if key == "repositories.list" else "file"
        raise BadBatchFile(f"{source} lists no {what}", hint="write one a line")
    return lines


def text_of(path: Path, *, hint: str) -> str:
    """A file that people write; `BadBatchFile` with this hint where it cannot be read, and beyond the limit."""
    try:
        with path.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        text = content.decode()
    except OSError as e:
        raise BadBatchFile(f"{path} cannot be read: {e.strerror}", hint=hint) from e
    except UnicodeDecodeError as e:
        raise BadBatchFile(f"{path} is not UTF-8 text", hint=hint) from e
    if len(content) > MAX_FILE_BYTES:
        raise BadBatchFile(f"{path} is larger than {MAX_FILE_BYTES} bytes")
    return text


def parse_batch(text: str, *, name: str = "batch.toml") -> BatchSpec:
    """As `load_batch`, from text; `name` is the file's, whose suffix says which language it is in."""
    return spec_of(values_in(text, language_of(name), name, hint=HELP), text, name)


def language_of(name: str) -> str:
    suffix = Path(name).suffix.lower()
    if suffix not in LANGUAGES:
        hint = "such files end in .toml, .yaml or .yml"
        raise BadBatchFile(f"{name} has the unknown suffix {suffix!r}", hint=hint)
    return LANGUAGES[suffix]


def values_in(text: str, language: str, name: str, *, hint: str = "") -> Any:
    """`language`: one of TOML, YAML and JSON."""
    try:
        return READERS[language](text)
    except (ValueError, yaml.YAMLError, RecursionError) as e:
        raise BadBatchFile(f"{name} is not {language}: {_one_line(e)}", hint=hint) from e


def spec_of(values: Any, text: str, name: str) -> BatchSpec:
    """What was read from `text`; `BadBatchFile` names the line and the field that is wrong."""
    return checked(BatchSpec, values, text, name, hint=HELP)


def checked(kind: type[P], values: Any, text: str, name: str, *, hint: str) -> P:
    """As `spec_of`, for any form. `hint`: what helps where nothing more is known."""
    try:
        return kind.model_validate(values)
    except ValidationError as e:
        # a misspelt key is unknown and leaves one missing: what is there says more than what is not
        fault = min(e.errors(include_url=False, include_context=False), key=lambda each: each["type"] != UNKNOWN_KEY)
        location = fault["loc"]
        where = f"{name}{_line_of(text, location)}"
        if fault["type"] == UNKNOWN_KEY:
            near = near_miss(str(location[-1]), _fields_at(kind, location[:-1]))
            raise BadBatchFile(f"{where}: unknown key {_dotted(location)!r}", hint=near) from e
        message = PLAINLY.get(fault["type"]) or fault["msg"].removeprefix("Value error, ")
        raise BadBatchFile(f"{where}: {_dotted(location) or 'the file'}: {message}", hint=hint) from e


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _dotted(location: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)
    return text.removeprefix(".")


def _line_of(text: str, location: tuple[int | str, ...]) -> str:
    """`:7` when exactly one line sets the last key or opens its table; parsers of TOML keep no positions."""
    key = next((part for part in reversed(location) if isinstance(part, str)), None)
    if key is None:
        return ""
    sets_key = re.compile(rf"""\s*(-\s*)?(\[+\s*)?["']?{re.escape(key)}["']?\s*[]=:]""")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if sets_key.match(line)]
    return f":{lines[0]}" if len(lines) == 1 else ""


def _fields_at(kind: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """The names that the model at this place knows."""
    model = kind
    for part in location:
        if isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation) or model
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model in an annotation, also inside a tuple, an optional or an annotated type."""
    if isinstance(annotation, type) and issubclass(cast(type[Any], annotation), BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := _model_in(part)) is not None), None)
