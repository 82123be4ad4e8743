"""What spans and their attributes are called. The one file that knows the semantic conventions of others.

`gen_ai.*` and `messaging.*` are theirs, still marked as in development there: taken from `SEMANTIC_CONVENTIONS`, and
changed here alone. `muster.*` is ours, and stays. docs/tracing.md shows these tables.
"""

from __future__ import annotations

from dataclasses import dataclass

SEMANTIC_CONVENTIONS = "1.44.0"
SCHEMA_URL = f"https://opentelemetry.io/schemas/{SEMANTIC_CONVENTIONS}"
SCOPE = "muster"


@dataclass(frozen=True, slots=True)
class SpanKind:
    """`otel`: the kind that OpenTelemetry knows. `name`: how its spans are called; `below`: what is its parent."""

    key: str
    name: str
    below: str
    about: str
    otel: str = "INTERNAL"

    def called(self, **said: object) -> str:
        """The name of one such span: `said` fills the gaps."""
        return self.name.format(**said)


SUBMIT = SpanKind(
    "submit", "submit {agent}", "whoever submits: a caller's span, a tool call, a gate, an attempt",
    "a task is handed to its queue", "PRODUCER",
)  # fmt: skip
QUEUE = SpanKind("queue", "queue {pool}", "submit", "from the task's acceptance to its first start")
ATTEMPT = SpanKind(
    "attempt", "attempt {agent}", "submit",
    "one start of the task in a worker, until it ends, waits or is given back; later ones stand beside it", "CONSUMER",
)  # fmt: skip
TURN = SpanKind("turn", "turn {number}", "attempt", "a model call and the tool calls that it asks for")
CHAT = SpanKind("chat", "chat {model}", "turn", "a model call with its retries and its waits for a permit", "CLIENT")
TOOL = SpanKind("tool", "execute_tool {tool}", "turn", "a tool call that was allowed")
SANDBOX = SpanKind("sandbox", "sandbox start", "the first that needs it", "a sandbox is opened, and work put into it")
GATE = SpanKind("gate", "gate", "attempt", "the project's own commands prove a change")
MERGE = SpanKind("merge", "merge", "attempt", "patches become one line of commits")
PLAN = SpanKind("plan", "plan", "attempt", "a planner is asked for a plan; once more, if that cannot be used")

SPANS = (SUBMIT, QUEUE, ATTEMPT, TURN, CHAT, TOOL, SANDBOX, GATE, MERGE, PLAN)

TASK_ID, TRACE_ID, ATTEMPT_NUMBER = "muster.task_id", "muster.trace_id", "muster.attempt"
POOL, AGENT, TENANT, BATCH, OUTCOME = (
    "muster.pool", "muster.agent", "muster.tenant", "muster.batch_id", "muster.outcome"
)  # fmt: skip
LOST_LEASES, TURN_NUMBER, COST_USD = "muster.lost_leases", "muster.turn", "muster.cost_usd"
EXISTING, IMAGE, GATE_RESULT = "muster.existing", "muster.sandbox.image", "muster.gate.result"
PATCHES, COLLISIONS = "muster.merge.patches", "muster.merge.collisions"
ERROR_TYPE = "error.type"
DESTINATION = "messaging.destination.name"
OPERATION, PROVIDER = "gen_ai.operation.name", "gen_ai.provider.name"
AGENT_NAME, CONVERSATION = "gen_ai.agent.name", "gen_ai.conversation.id"
REQUEST_MODEL, FINISH_REASONS = "gen_ai.request.model", "gen_ai.response.finish_reasons"
INPUT_TOKENS, OUTPUT_TOKENS = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS = "gen_ai.usage.cache_read.input_tokens"
TOOL_NAME, CALL_ID = "gen_ai.tool.name", "gen_ai.tool.call.id"
INPUT_MESSAGES, OUTPUT_MESSAGES = "gen_ai.input.messages", "gen_ai.output.messages"
CALL_ARGUMENTS, CALL_RESULT = "gen_ai.tool.call.arguments", "gen_ai.tool.call.result"

# attribute → on which spans, and what it says
ATTRIBUTES: dict[str, tuple[str, str]] = {
    TASK_ID: ("submit, queue, attempt", "the task, as `muster task show` takes it"),
    TRACE_ID: ("submit, queue, attempt", "Muster's own id of the trace; a caller's `traceparent` may differ from it"),
    ATTEMPT_NUMBER: ("attempt", "which start of the task this is: 1, 2 …"),
    POOL: ("submit, queue, attempt", "the queue"),
    AGENT: ("submit, queue, attempt", "the agent that the task is for"),
    TENANT: ("submit, attempt", "whose task it is"),
    BATCH: ("submit, attempt", "the batch that the task belongs to, if any"),
    EXISTING: ("submit", "true: the queue knew this work already, under the task that is named"),
    OUTCOME: (
        "attempt, tool",
        "how it ended: a task's last state, or `parked`, `given_back`, `retried`, `lost`; of a tool call `waits`",
    ),
    LOST_LEASES: ("attempt", "how many workers were lost with this task before"),
    COST_USD: ("attempt, chat", "what it cost, as far as the model's price is known"),
    TURN_NUMBER: ("turn", "which turn of the session it is"),
    IMAGE: ("sandbox", "the image"),
    GATE_RESULT: ("gate", "`verified`, `done` or `rejected`"),
    PATCHES: ("merge", "how many patches were to be merged"),
    COLLISIONS: ("merge", "how many of them collide"),
    ERROR_TYPE: ("any that failed", "the code of the error, or the kind of the failure"),
    DESTINATION: ("submit, attempt", "the queue"),
    OPERATION: ("attempt, chat, tool", "`invoke_agent`, `chat` or `execute_tool`"),
    PROVIDER: ("chat", "who serves the model, as its name says"),
    AGENT_NAME: ("attempt", "the agent"),
    CONVERSATION: ("attempt", "the session, as `--resume` takes it"),
    REQUEST_MODEL: ("chat", "the model that was asked"),
    FINISH_REASONS: ("chat", "why the reply ended"),
    INPUT_TOKENS: ("chat", "tokens in, those read from a cache among them"),
    OUTPUT_TOKENS: ("chat", "tokens out, those of reasoning among them"),
    CACHE_READ_TOKENS: ("chat", "tokens in that the provider had in its cache"),
    TOOL_NAME: ("tool", "the tool"),
    CALL_ID: ("tool", "the call's id, as the model gave it"),
    INPUT_MESSAGES: ("chat, opt-in", "what came since the model was asked last"),
    OUTPUT_MESSAGES: ("chat, opt-in", "what it answered"),
    CALL_ARGUMENTS: ("tool, opt-in", "the arguments"),
    CALL_RESULT: ("tool, opt-in", "what the model was told of it"),
}
CONTENT = frozenset({INPUT_MESSAGES, OUTPUT_MESSAGES, CALL_ARGUMENTS, CALL_RESULT})
