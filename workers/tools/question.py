"""`question` and `plan_exit`: tools that do nothing but ask people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from envelope.asks import Option, Question
from envelope.events import AskOpened
from envelope.plan_sections import section_faults

from .base import Target, ToolContext
from .errors import ToolError
from .people import Asked
from .schema import flag, parameters, text

MAX_QUESTIONS = 10
MAX_OPTIONS = 20
MAX_HEADER_CHARS = 30  # a tab's name
MAX_TEXT_CHARS = 1000  # of a question, a label, a description: all of them together fit into one message

QUESTION = "question"
PLAN_EXIT = "plan_exit"
YES, NO = "yes", "no"
LEAVE = Question(
    question="The plan is ready. May it be carried out?",
    header="Plan",
    options=(Option(label=YES, description="go on with it as agent build"), Option(label=NO, description="refine it")),
)


def _text(description: str, max_chars: int = MAX_TEXT_CHARS) -> dict[str, Any]:
    return {**text(description), "minLength": 1, "maxLength": max_chars}


class AskQuestions:
    name = QUESTION
    description = (
        "Ask the people whose task this is, when only they can know: a preference, a decision, something unclear."
        " The task waits for their answer. With options they choose, and may answer in their own words unless custom"
        " is false. Put the option that you would take first. Ask everything that you need in one call."
    )
    parameters = parameters(
        ["questions"],
        questions={
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_QUESTIONS,
            "items": parameters(
                ["question", "header"],
                question=_text("the whole question"),
                header=_text("two or three words for it", MAX_HEADER_CHARS),
                options={
                    "type": "array",
                    "maxItems": MAX_OPTIONS,
                    "items": parameters(
                        ["label"],
                        label=_text("the answer, in one to five words"),
                        description={**text("what it means"), "maxLength": MAX_TEXT_CHARS},
                    ),
                },
                multiple=flag("may several be chosen (default false)"),
                custom=flag("may the answer be in one's own words (default true)"),
            ),
        },
    )

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target(self.name, "*")]

    def title(self, arguments: Mapping[str, Any]) -> str:
        count = len(arguments["questions"])
        return arguments["questions"][0]["header"] if count == 1 else f"{count} questions"

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> Asked:
        questions = tuple(Question.model_validate(each) for each in arguments["questions"])
        if stuck := next((each for each in questions if not each.options and not each.custom), None):
            raise ToolError(f"{stuck.question!r} has no options, so that custom cannot be false")
        return await _asked(context, call_id, self.name, questions, title=self.title(arguments))


class PlanExit:
    name = PLAN_EXIT
    description = (
        "Ask the people whose task this is whether your plan may be carried out. Call it when the plan in your plan"
        " file is whole, and nothing is unclear: they read it there. On a yes your work ends, and agent build goes on"
        " in this session; on a no you hear what to change."
    )
    parameters = parameters([])

    def targets(self, arguments: Mapping[str, Any]) -> list[Target]:
        return [Target(self.name, "*")]

    def title(self, arguments: Mapping[str, Any]) -> str:
        return "the plan"

    async def run(self, context: ToolContext, call_id: str, arguments: Mapping[str, Any]) -> Asked:
        planning = context.planning
        if planning.path and not planning.text.strip():
            raise ToolError(
                f"your plan file {planning.path} is empty; write the plan there, and call {self.name} again"
            )
        if planning.path and (faults := section_faults(planning.text)):
            raise ToolError(
                f"your plan file {planning.path} is not whole: {'; '.join(faults)}; write them there, each under a"
                f" heading of that name, and call {self.name} again"
            )
        return await _asked(context, call_id, self.name, (LEAVE,), title=self.title(arguments), detail=planning.text)


async def _asked(
    context: ToolContext, call_id: str, name: str, questions: tuple[Question, ...], *, title: str, detail: str = ""
) -> Asked:
    if context.people is None:
        raise ToolError("nobody can be asked in this run; decide yourself, and say what you assumed")
    ask = AskOpened(ask_id="", permission=name, question=questions[0].question, detail=detail, questions=questions)
    return await context.people.asked(call_id, [ask], title=title)
