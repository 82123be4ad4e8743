"""Where a reference's text comes from: the base, a task's result, a session, a blob."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from envelope.messages import ContextRef, TaskRequest, TaskResult
from transport.base import Transport
from transport.errors import NotFound

from ..agent.history import final_text
from ..delivery.results import WHOLE_TEXT
from ..sandboxes.base_files import BaseFiles
from ..sessions.checkpoints import Checkpoints
from ..tools.base import GetSandbox, Target
from ..tools.errors import ToolError
from ..tools.files import is_binary
from ..tools.paths import path_targets, relative
from ..tools.read_reference import Found
from ..tools.task import result_text
from ..tools.webfetch import Check
from .grammars import GRAMMARS, SUFFIXES, language_of
from .looking import find_lines
from .names import TYPES, name_of, parse_name
from .symbols import SYMBOL

# Files in which a symbol without a path is looked for.
MAX_CANDIDATES = 50
MAX_MATCHES = 500
# The words before a name that is defined, in any of the languages.
_INTRODUCED = (
    r"\b(def|class|function\*?|func|fn|struct|enum|union|trait|interface|record|type|mod|namespace|const|let|var"
    r"|static|macro_rules!|#define|using|typedef)\s([^=;{]*[\s*&)])?"
)
PROMPT_CHARS = 2000  # of what an earlier session was asked
# A long output is read in pieces; a hundred agents that each keep one at hand take 13 MB.
KEPT_CHARS = 128 * 1024


@dataclass(frozen=True, slots=True)
class Sources:
    """See `tools.read_reference.References`. `check` judges files that are found only while reading."""

    request: TaskRequest
    transport: Transport
    base: BaseFiles
    sandbox: GetSandbox
    check: Check
    _last: dict[str, str] = field(default_factory=dict[str, str])  # the blob that was read last, and its text

    def targets(self, name: str) -> list[Target]:
        """Files by the grants for them. Tasks, sessions and blobs by who named them, which `find` looks at."""
        ref = self._ref(name)
        if ref is None:
            return []
        path = _place(ref)[0] if ref.type == "symbol" else ref.id
        targets = path_targets("read", path) if path and ref.type in ("file", "doc", "symbol") else []
        return [Target(each.permission, each.pattern) for each in targets]  # no link leads anywhere at the base

    def url(self, name: str) -> str | None:
        ref = self._ref(name)
        return ref.id if ref and ref.type == "doc" and ref.id.startswith(("http://", "https://")) else None

    async def find(self, name: str) -> Found:
        """What a reference names; `ToolError`, with those that there are, for one that the task was not given."""
        ref = self._ref(name)
        if ref is None:
            known = ", ".join(name_of(ref) for ref in self.request.context_refs)
            raise ToolError(f"{name!r} is no reference; there are: {known} (types: {', '.join(TYPES)})")
        readers: Mapping[str, Callable[[ContextRef], Awaitable[Found]]] = {
            "file": self._file,
            "doc": self._file,
            "symbol": self._symbol,
            "task": self._task,
            "memory": self._memory,
            "blob": self._blob,
        }
        try:
            return await readers[ref.type](ref)
        except NotFound as e:
            raise ToolError(f"{name} is not kept any more: {e}") from e

    def _ref(self, name: str) -> ContextRef | None:
        return next((ref for ref in self.request.context_refs if name_of(ref) == name), None) or parse_name(name)

    async def _file(self, ref: ContextRef) -> Found:
        return Found(_text(name_of(ref), await self._content(ref.id)), ref.range)

    async def _symbol(self, ref: ContextRef) -> Found:
        path, symbol = _place(ref)
        if not SYMBOL.fullmatch(symbol):
            raise ToolError(f"{symbol!r} is no symbol; write it as path.py::Class.method, with dots in any language")
        if path and language_of(path) is None:
            known = f"known are {', '.join(GRAMMARS)}"
            raise ToolError(
                f"symbols cannot be looked up in {path}: {known}. Use grep with {symbol.rpartition('.')[2]!r} instead."
            )
        for candidate in [path] if path else await self._candidates(symbol):
            source = await self._content(candidate)
            if lines := await find_lines(source, symbol, language_of(candidate) or ""):
                return Found(_text(candidate, source), lines, f"{relative(candidate)}:{lines[0]}")
        raise ToolError(f"there is no {symbol} in {path or 'the source files that may be read'} at the base")

    async def _candidates(self, symbol: str) -> list[str]:
        """Files that seem to define the symbol, and that the task may read."""
        last = re.escape(symbol.rpartition(".")[2])
        pattern = rf"{_INTRODUCED}{last}\b|^\s*{last}\s*[:=]|^[^=;()]*[\s*&:]{last}\s*\([^;]*$"
        include = f"*.{{{','.join(SUFFIXES)}}}"
        found, _ = await (await self.sandbox()).grep(pattern, include=include, limit=MAX_MATCHES)
        paths = [*dict.fromkeys(match.path for match in found)][:MAX_CANDIDATES]
        return [path for path in paths if self.check(path_targets("read", path)) is None]

    async def _content(self, path: str) -> bytes:
        content = await self.base.read(relative(path))
        if content is None:
            raise ToolError(
                f"there is no file {relative(path)} at the base; without `ref`, read sees the files as they are now"
            )
        return content

    async def _task(self, ref: ContextRef) -> Found:
        await self._require_ours(ref)
        result = await self.transport.result(ref.id)
        if result is None:
            state = (await self.transport.record(ref.id)).state
            raise ToolError(f"the task {ref.id} has no result yet: it is {state}")
        return Found(await self._told(result), ref.range)

    async def _told(self, result: TaskResult) -> str:
        whole = next((attached for attached in result.attachments if attached.name == WHOLE_TEXT), None)
        if whole is not None:
            text = (await self.transport.blobs.get(whole.blob)).decode("utf-8", "replace")
            result = result.model_copy(update={"output": result.output.model_copy(update={"text": text})})
        structured = result.output.structured
        return result_text(result) + ("" if structured is None else f"\n{json.dumps(structured, ensure_ascii=False)}")

    async def _memory(self, ref: ContextRef) -> Found:
        """A session is named after the task that opened it."""
        await self._require_ours(ref)
        record = await self.transport.record(ref.id)
        if record.checkpoint is None:
            raise ToolError(f"the session {ref.id} holds nothing")
        session = await Checkpoints(self.transport.blobs).load(record.checkpoint)
        asked = next((message.content for message in session.messages if message.role == "user"), "")
        said = f"Its last words, after {session.turn} turns:\n{final_text(session)}"
        return Found(f"Asked of {session.agent}: {asked[:PROMPT_CHARS]}\n{said}", ref.range)

    async def _blob(self, ref: ContextRef) -> Found:
        named = {known.id for known in self.request.context_refs if known.type == "blob"}
        if ref.id not in named | {attached.blob for attached in self.request.attachments}:
            raise ToolError(f"the blob {ref.id!r} is not among this task's references")
        if (text := self._last.get(ref.id)) is None:
            text = _text(name_of(ref), await self.transport.blobs.get(ref.id))
            self._last.clear()
            if len(text) <= KEPT_CHARS:
                self._last[ref.id] = text
        return Found(text, ref.range)

    async def _require_ours(self, ref: ContextRef) -> None:
        """A task is read if the request names it or its trace is the same, and never one of another tenant."""
        known = {named.id for named in self.request.context_refs if named.type == ref.type}
        other = await self.transport.request(ref.id)
        is_near = ref.id in known or other.trace_id == self.request.trace_id
        if not is_near or other.tenant != self.request.tenant:
            raise ToolError(f"the task {ref.id} is neither among this task's references nor of its trace")


def _place(ref: ContextRef) -> tuple[str, str]:
    """A symbol's file (empty: it is looked for) and name: what is judged is what is read."""
    path, _, symbol = ref.id.rpartition("::")
    return path, symbol


def _text(name: str, content: bytes) -> str:
    if is_binary(name, content):
        raise ToolError(f"{name} is binary and cannot be shown as text")
    return content.decode("utf-8-sig", "replace")
