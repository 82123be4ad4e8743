"""The messages: TaskRequest down, TaskProgress and one TaskResult back. (Plan is in `plan.py`.)"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from .asks import AskTerms
from .budget import Budget, Metrics
from .errors import CODES, ErrorCode, Turn
from .events import Event
from .ids import BlobRef, TaskId, TraceId
from .lifecycle import TERMINAL, State
from .scope import Scope
from .tracing.context import tidy_parent, tidy_state
from .wire import Tagged, Wire

# Thirty days: the longest that a task may ask for anywhere. A fleet may allow less (`Limits.max_deadline_ms`).
MAX_DEADLINE_MS = 30 * 24 * 3600 * 1000

Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_./-]{1,100}$")]


class Priority(StrEnum):
    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"


class TaskInput(Wire):
    prompt: str = ""
    params: dict[str, Any] = Field(default_factory=dict[str, Any])


class ContextRef(Wire):
    """A reference, never the text: fetched on demand, within scope. `range` is (first line, last line), from 1."""

    type: Literal["file", "symbol", "doc", "task", "memory", "blob"]
    id: str
    range: tuple[int, int] | None = None


class Attachment(Wire):
    blob: BlobRef
    name: str
    media_type: str = "application/octet-stream"
    size_bytes: int = 0


NOT_AT_ALL = "-"  # no settings have this digest


class Workspace(Wire):
    """Where the code is: exactly one of `url`, `bundle` and `path`, and the commit that work starts from.

    `credentials` is a name that the operator configured, never a secret. `changes` is a diff that goes onto the base
    first. `setup` are the commands that make the project's dependencies available. `trusted` is the digest of the
    settings folders at `base` that the submitter trusts (see `repo.project`); with any other these may only narrow,
    and with `NOT_AT_ALL` nobody looks for agents there. `public`: by https, from a host of public addresses alone,
    unless `credentials` are for it: who asks is lent nothing of the workers' own network.
    """

    url: str | None = None
    bundle: BlobRef | None = None
    path: str | None = None
    credentials: str = ""
    base: str
    subpath: str = ""
    changes: BlobRef | None = None
    setup: tuple[str, ...] = ()
    trusted: str = ""
    public: bool = False

    @field_validator("url")
    @classmethod
    def _no_secret_in_url(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "")
        # `git` in ssh://git@… is an account; over HTTP the name alone may be a token
        if parts.password is not None or (parts.username is not None and parts.scheme in ("http", "https")):
            raise ValueError("the URL carries a password or a token; name it in `credentials`")
        return url

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if sum(source is not None for source in (self.url, self.bundle, self.path)) != 1:
            raise ValueError("say exactly one of `url`, `bundle` and `path`")
        return self


class Signature(Wire):
    key_id: str
    mac: bytes


class TaskRequest(Tagged):
    kind: Literal["request"] = "request"
    schema_version: int = 1
    task_id: TaskId
    trace_id: TraceId
    parent_task_id: TaskId | None = None
    traceparent: str = ""  # where in a trace, a caller's perhaps, its submission stands
    tracestate: str = ""
    sender: str
    recipient: Name
    agent: Name
    intent: str = ""
    input: TaskInput = TaskInput()
    context_refs: tuple[ContextRef, ...] = ()
    attachments: tuple[Attachment, ...] = ()
    workspace: Workspace | None = None
    auth_scope: Scope = ()
    capabilities: tuple[str, ...] | None = None
    budget: Budget = Budget()
    deadline_ms: Annotated[int, Field(gt=0, le=MAX_DEADLINE_MS)]
    idempotency_key: Annotated[str, Field(max_length=200)] = ""
    priority: Priority = Priority.NORMAL
    tenant: Name = "default"
    resume_token: str = ""
    model: str = ""
    output_schema: dict[str, Any] | None = None
    batch_id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{0,100}$")] = ""
    retry_of: TaskId | None = None
    asks: AskTerms | None = None  # None: nobody can be asked
    read_only: bool = False  # of a caller who may only look: what it comes to stands for nobody else's work
    created_at_ms: Annotated[int, Field(ge=0, lt=2**53)]
    signature: Signature | None = Field(default=None, exclude=True)  # stands beside the body on the wire, see codec.py

    @field_validator("traceparent", mode="before")
    @classmethod
    def _parent_that_reads(cls, value: object) -> object:
        return tidy_parent(value) if isinstance(value, str) else value

    @field_validator("tracestate", mode="before")
    @classmethod
    def _state_that_reads(cls, value: object) -> object:
        return tidy_state(value) if isinstance(value, str) else value


class TaskProgress(Tagged):
    """What happened in a task since the last one. `seq` is 0, 1, 2 … within one attempt."""

    kind: Literal["progress"] = "progress"
    trace_id: TraceId
    task_id: TaskId
    attempt: int
    seq: int
    at_ms: int
    status: State
    events: tuple[Event, ...] = ()
    metrics: Metrics | None = None
    partial_output: str | None = None


class Output(Wire):
    text: str = ""
    structured: Any = None


class FileStat(Wire):
    path: str
    status: Literal["A", "M", "D", "R", "T"]
    old_path: str | None = None
    added: int | None = None  # None: a binary file
    removed: int | None = None


class PatchRef(Wire):
    """A change as it travels. `tree` is git's id of the base with the diff applied, so that anyone can check it."""

    base: str
    diff: BlobRef
    files: tuple[FileStat, ...] = ()
    added: int = 0
    removed: int = 0
    tree: str


class ErrorInfo(Wire):
    code: ErrorCode
    message: str
    hint: str = ""
    retryable: bool
    turn: Turn

    @classmethod
    def of(cls, code: ErrorCode, message: str, hint: str = "") -> ErrorInfo:
        info = CODES[code]
        return cls(code=code, message=message, hint=hint, retryable=info.retryable, turn=info.turn)


class Provenance(Wire):
    """What supports a statement: a file with its lines at the base, a task, or a URL."""

    claim: str = ""
    path: str = ""
    line: int = 0
    end_line: int = 0
    task_id: str = ""
    url: str = ""


class ToolCallSummary(Wire):
    tool: str
    title: str = ""
    is_error: bool = False
    duration_ms: int = 0


class TaskResult(Tagged):
    kind: Literal["result"] = "result"
    trace_id: TraceId
    task_id: TaskId
    attempt: int
    status: State
    output: Output = Output()
    attachments: tuple[Attachment, ...] = ()
    patch: PatchRef | None = None
    errors: tuple[ErrorInfo, ...] = ()
    provenance: tuple[Provenance, ...] = ()
    tool_calls: tuple[ToolCallSummary, ...] = ()
    metrics: Metrics = Metrics()
    resume_token: str = ""
    next_agent: str = ""  # who goes on in its session, as a person has agreed: never a model's word

    @field_validator("status")
    @classmethod
    def _ends(cls, status: State) -> State:
        if status not in TERMINAL:
            raise ValueError(f"a result ends a task; {status} does not")
        return status


Message = TaskRequest | TaskProgress | TaskResult
