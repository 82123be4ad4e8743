"""What an agent's task is told in its `params`."""

from __future__ import annotations

from pydantic import ValidationError

from envelope.agent_params import UNDOING, AgentParams
from envelope.messages import TaskRequest

from ..delivery.attempt import Attempt
from ..errors import BadInput


def agent_params(request: TaskRequest) -> AgentParams:
    """`BadInput` names the first one that is wrong. Others than these are the caller's own, and mean nothing here."""
    try:
        return AgentParams.model_validate(request.input.params)
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, fault["loc"])) or "params"
        raise BadInput(
            f"the task's {where}: {fault['msg']}", hint=f"known: {', '.join(AgentParams.model_fields)}"
        ) from e


def undoing(request: TaskRequest) -> AgentParams | None:
    """How the task is to change its session without a model; None for all others. A person may say it in words."""
    if request.resume_token and request.parent_task_id is None and request.input.prompt.strip() in UNDOING:
        return UNDOING[request.input.prompt.strip()]
    params = agent_params(request)
    is_one = params.unrevert or params.undo or params.revert_to is not None or params.fork_of
    return params if is_one else None


def require_session(attempt: Attempt, params: AgentParams) -> str:
    """The checkpoint that the task forks, or of the session that it goes on with; `BadInput` when there is none."""
    if params.fork_of:
        return params.fork_of
    if attempt.claim.session is None:
        raise BadInput("there is no session to take back", hint="name one in resume_token")
    return attempt.claim.session
