"""Who is calling, what they may do, and which tasks are theirs to see."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from transport.base import TaskRecord
from transport.errors import NotFound, no_task

from ..client import Muster
from ..families import MAX_LISTED
from .problems import Problem
from .rates import Rates
from .tokens import ALL_TENANTS, Right, Token, TokenFile

_bearer = HTTPBearer(auto_error=False, description="A token of `muster token create`.")


@dataclass(frozen=True, slots=True)
class Caller:
    """Somebody with the right that a route asks for, and the fleet as they may see it."""

    token: Token
    muster: Muster

    @property
    def name(self) -> str:
        return f"api:{self.token.name}"

    @property
    def tenant(self) -> str:
        """Whose the tasks are that they submit."""
        return self.muster.settings.tenant if self.token.tenant == ALL_TENANTS else self.token.tenant

    @property
    def seen_tenant(self) -> str | None:
        """Whose tasks they see; None for everybody's."""
        return None if self.token.tenant == ALL_TENANTS else self.token.tenant

    async def record(self, task_id: str) -> TaskRecord:
        """`NotFound` for another tenant's, in the very words for one that is not there."""
        record = await self.muster.record(task_id)
        if not self.token.sees(record.tenant):
            raise no_task(task_id)
        return record

    async def trace(self, trace_id: str) -> list[TaskRecord]:
        """A trace's tasks; `NotFound` when there are none that they may see."""
        found = await self.muster.tasks(trace_id=trace_id, limit=MAX_LISTED)
        tasks = [task for task in found if self.sees(task)]
        if not tasks:
            raise no_trace(trace_id)
        return tasks

    async def require_trace(self, trace_id: str) -> None:
        """As `trace`, by its root alone: the tasks of a trace are one tenant's."""
        roots = await self.muster.tasks(trace_id=trace_id, limit=1)
        if not any(map(self.sees, roots)):
            raise no_trace(trace_id)

    def sees(self, record: TaskRecord) -> bool:
        return self.token.sees(record.tenant)


def no_trace(trace_id: str) -> NotFound:
    return NotFound(f"there is no trace {trace_id}", hint="see the traces with: GET /v1/tasks")


def caller_with(right: Right) -> Callable[..., Caller]:
    """A dependency: the caller, who must have the right. 401 without a good token, 403 without the right."""

    def check(
        request: Request, credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
    ) -> Caller:
        tokens: TokenFile = request.app.state.tokens
        rates: Rates = request.app.state.rates
        token = tokens.find(credentials.credentials) if credentials else None
        if token is None:
            raise Problem(HTTPStatus.UNAUTHORIZED, "a token is needed", hint="Authorization: Bearer TOKEN")
        if wait_s := rates.take(token.name):
            raise Problem(
                HTTPStatus.TOO_MANY_REQUESTS, "too many calls with this token", hint="come again", retry_after_s=wait_s
            )
        if not token.may(right):
            raise Problem(
                HTTPStatus.FORBIDDEN,
                f"the role {token.role} may not {right}",
                hint="ask an operator for a token with another role",
            )
        muster: Muster = request.app.state.muster
        return Caller(token, muster.read_only() if token.read_only else muster)

    return check


Viewer = Annotated[Caller, Depends(caller_with(Right.SEE))]
Submitter = Annotated[Caller, Depends(caller_with(Right.SUBMIT))]
Approver = Annotated[Caller, Depends(caller_with(Right.APPROVE))]
Publisher = Annotated[Caller, Depends(caller_with(Right.PUBLISH))]
Operator = Annotated[Caller, Depends(caller_with(Right.OPERATE))]
