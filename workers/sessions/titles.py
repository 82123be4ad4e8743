"""The title of a root session: asked for beside its first turn, so that it delays nothing."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager

from envelope.budget import Usage
from envelope.events import TitleSet
from envelope.logs import get_logger
from envelope.messages import TaskRequest

from ..agent.account import Account
from ..agent.asking import ask
from ..agent.bound import request_tokens
from ..agent.budget import Stop
from ..agent.session import Session
from ..agent_task.till import TraceTill
from ..agents.base import Agent
from ..delivery.attempt import Attempt
from ..llm.base import ChatMessage, Completed, Failed
from ..llm.limited import Limited, Limiter
from ..llm.limits import ModelLimits
from ..llm.prices import cost_microusd
from ..llm.retry import Retrying, RetryPolicy
from ..models import Models
from .habits import Habits, hidden_agent

MAX_TITLE_CHARS = 100
# The beginning of a prompt says what it is about.
SHOWN_CHARS = 4_000
# A line, and what a model may think before it.
OUTPUT_TOKENS = 2_000
# So long the end of a short task waits for its title; what has not come by then is given up.
GRACE_S = 2.0
# For the fleet's limit, which serves a title like any other call; a task that has ended by then has none.
LONGEST_WAIT_S = 60.0
ONE_MORE_TRY = RetryPolicy(tries=2)

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL | re.IGNORECASE)

log = get_logger("titles")


def cleaned(text: str) -> str:
    """What a model gave as a title, without its thoughts and on one line; empty when there is none.

    >>> cleaned("<think>Hm. A title.</think>\\n\\n  Mend the   parser\\nof dates")
    'Mend the parser'
    """
    lines = (" ".join(line.split()) for line in _THOUGHTS.sub("", text).splitlines())
    line = next((line for line in lines if line), "")
    return line if len(line) <= MAX_TITLE_CHARS else line[: MAX_TITLE_CHARS - 1] + "…"


class Titling:
    """One session's title. What it cost is charged when it comes, and counted with the next saving."""

    def __init__(
        self, models: Models, limiter: Limiter, agents: Mapping[str, Agent], habits: Habits, attempt: Attempt
    ) -> None:
        self._models, self._limiter, self._habits, self._attempt = models, limiter, habits, attempt
        self._agent = hidden_agent("title", agents)
        self._uncounted: tuple[Usage, int] | None = None

    @asynccontextmanager
    async def beside(self, session: Session) -> AsyncGenerator[None]:
        """Ask for it while the body runs, if this session is to have one."""
        params = self._attempt.request.input.params
        is_unwanted = params.get("replay") is not None or params.get("untitled") is True
        if is_unwanted or not (self._habits.titles and _opens_a_trace(self._attempt)):
            yield
            return
        titling = asyncio.create_task(self._set(session.model))
        try:
            yield
            await asyncio.wait([titling], timeout=GRACE_S)
        finally:
            titling.cancel()
            await asyncio.gather(titling, return_exceptions=True)

    def counted(self, session: Session) -> Session:
        """The session with what its title has cost, once."""
        if self._uncounted is None:
            return session
        (usage, cost), self._uncounted = self._uncounted, None
        return session.model_copy(
            update={"usage": session.usage + usage, "cost_microusd": session.cost_microusd + cost}
        )

    async def _set(self, sessions_own: str) -> None:
        try:
            await self._ask(self._habits.small_model or self._agent.model or sessions_own)
        except Exception as e:  # a task without a title is as good; a lost lease or store the loop finds, too
            log.warning("title_failed", task_id=self._attempt.request.task_id, error=str(e))

    async def _ask(self, model_name: str) -> None:
        reporter, price = self._attempt.reporter, await self._models.price(model_name)
        if price is None and reporter.ledger.tightest.cap_microusd is not None:
            log.warning("title_without_price", model=model_name)
            return
        limits = await self._models.limits(model_name)
        output_tokens = min(limits.output or OUTPUT_TOKENS, OUTPUT_TOKENS)
        till = TraceTill(reporter, price, ModelLimits(limits.context, output_tokens))
        model = self._models.named(
            model_name,
            temperature=self._agent.temperature,
            output_limit=lambda: till.output_tokens or output_tokens,
            effort=self._agent.variant,
        )
        asked = _request(self._agent.prompt, self._attempt.request.input.prompt)
        tokens = request_tokens(asked)
        held = await till.reserve(tokens)
        if isinstance(held, Stop):
            return
        limited = Limited(
            model,
            self._limiter,
            self._models.rate_key(model_name),
            self._attempt.claim.lease.trace_id,
            lambda waits: None,
            lambda: LONGEST_WAIT_S,
        )
        account = Account(till, lambda usage, rank: cost_microusd(price, usage, rank) if price else 0, tokens, held)
        retrying = Retrying(limited, lambda retry: None, ONE_MORE_TRY, lost=account)
        try:
            reply = await ask(retrying, asked, (), lambda event: None)
            if isinstance(reply, Completed):
                account.answered(reply)
        finally:  # what was given up is paid, too
            self._charge(account)
        if isinstance(reply, Failed):
            log.warning("title_failed", task_id=self._attempt.request.task_id, error=reply.message)
            return
        if title := cleaned(reply.text):
            reporter.report(TitleSet(title=title))

    def _charge(self, account: Account) -> None:
        account.close()
        self._attempt.reporter.totals.add_aside(account.usage, cost_microusd=account.cost_microusd)
        self._uncounted = (account.usage, account.cost_microusd)


def _request(system: str, prompt: str) -> tuple[ChatMessage, ...]:
    words = f"<prompt>\n{prompt[:SHOWN_CHARS]}\n</prompt>\n\nName this piece of work."
    return ChatMessage(role="system", content=system), ChatMessage(role="user", content=words, synthetic=True)


def _opens_a_trace(attempt: Attempt) -> bool:
    """A person's own first prompt: no agent's, no shard's, and nothing that goes on."""
    claim, request = attempt.claim, attempt.request
    return claim.checkpoint is None and claim.session is None and not request.batch_id and not _is_agents(request)


def _is_agents(request: TaskRequest) -> bool:
    """Agents sign what they start as pool/agent; the driver of a goal, which is a person's, by its name."""
    return request.parent_task_id is not None and "/" in request.sender
