"""An earlier prompt of a session, told again to an editor that opens it."""

from __future__ import annotations

from acp import update_user_message_text

from transport.base import TaskRecord

from ..client import Muster
from ..session.fold import Session, apply
from .door import Door
from .stops import end_text
from .texts import shown
from .turn import Turn
from .updates import Teller


async def retell(muster: Muster, door: Door, teller: Teller, record: TaskRecord) -> Turn | None:
    """The prompt and what came of it, as far as the fleet still knows it; the turn, if it is under way."""
    text = (await muster.request(record.task_id)).input.prompt
    await door.send([update_user_message_text(shown(text))])
    teller.heard.add(text)
    teller.said = False
    view = view_of(record)
    async for entry in muster.follow(record.trace_id, wait=False):
        if apply(view, entry):
            await door.send(teller.updates(view, entry))
    result = await muster.result(record.task_id)
    if result is None:
        return Turn(muster, door, teller, view)
    if not teller.said and result.output.text:
        await door.say(await muster.answer(result))
    await door.say(end_text(view, result))
    return None


def view_of(record: TaskRecord) -> Session:
    return Session.of(record.task_id, record.trace_id, agent=record.agent, title=record.intent)
