"""What the scripted model says in the measurements of agents: decided by the prompt's words and the turn."""

from __future__ import annotations

from typing import Any

TURNS = 50  # of the longest conversation
DELTAS = 5000
DELTA_CHARS = 100  # what a delta costs is a figure of its own
LINES_A_READ = 20
# As many lines as a file has mostly, each of its own.
TEXT = "".join(f"value_{n} = compute(value_{n - 1}, scale={n})\n" for n in range(1, 201))

Json = dict[str, Any]


def prompt(tool: str, turns: int) -> str:
    """The words that the rules below go by."""
    return f"Use {tool} for {turns} turns."


def calls(blob: str) -> Json:
    """One tool call a turn, each with another input, and an answer in the last one."""
    ends = [
        {"when": {"prompt_contains": f"for {turns} turns.", "turn": turns}, "reply": {"text": "That is all."}}
        for turns in range(1, TURNS + 1)
    ]
    return {"rules": [*ends, *_calls("read", blob), *_calls("bash", blob), *_calls("bash-writes", blob)]}


def _calls(what: str, blob: str) -> list[Json]:
    tool = what.partition("-")[0]
    return [
        {
            "when": {"prompt_contains": f"Use {what} ", "turn": turn},
            "reply": {
                "text": "I look further.",
                "tool_calls": [{"name": tool, "arguments": _input(what, turn, blob)}],
                "delta_chars": DELTA_CHARS,
            },
        }
        for turn in range(1, TURNS)
    ]


def _input(what: str, turn: int, blob: str) -> Json:
    if what.startswith("bash"):
        return {"command": f"echo turn {turn}" + (" >> notes.txt" if what == "bash-writes" else "")}
    return {"ref": f"blob:{blob}", "offset": turn, "limit": LINES_A_READ}


def says_much() -> Json:
    """A reply of `DELTAS` deltas, or of one."""
    much = {"text": "word " * (DELTAS // 5), "delta_chars": 1}
    return {"rules": [{"when": {"prompt_contains": "much"}, "reply": much}, {"reply": {"text": "Little."}}]}


def stays(blob: str, turns: int) -> Json:
    """Reads the whole text in each turn, and then thinks for longer than anybody waits."""
    reads = [
        {"when": {"turn": turn}, "reply": {"tool_calls": [{"name": "read", "arguments": _whole(turn, blob)}]}}
        for turn in range(1, turns)
    ]
    return {"rules": [*reads, {"fault": {"stall_s": 600}}]}


def _whole(turn: int, blob: str) -> Json:
    return {"ref": f"blob:{blob}", "limit": 2000 - turn}  # no two calls are the same


def takes(blob: str, stall_s: float) -> Json:
    """As `calls`, and each reply takes so long."""
    return {"rules": [{**rule, "fault": {"stall_s": stall_s}} for rule in calls(blob)["rules"]]}


def _of_part(tool: str, turn: int) -> Json:
    if tool == "bash":
        return {"command": f"echo {turn}"}
    return {"filePath": f"/workspace/src/part_{turn}.py"} if tool == "read" else {}


def fans_out(tool: str, count: int) -> Json:
    """Sends `count` subagents out at once, each of which makes three calls before it answers; a reply takes 1 s."""
    child = {"subagent_type": "general", "description": "a part", "prompt": "Do your part."}
    tasks = [{"name": "task", "arguments": child} for _ in range(count)]
    steps = [
        {
            "when": {"prompt_contains": "Do your part.", "turn": turn},
            "reply": {"tool_calls": [{"name": tool, "arguments": _of_part(tool, turn)}]},
        }
        for turn in (1, 2, 3)
    ]
    begin = {
        "when": {"prompt_contains": "Send them all.", "turn": 1},
        "reply": {"tool_calls": tasks, "delta_chars": 200},
    }
    rules = [*steps, begin, {"reply": {"text": "That is all."}}]
    return {"rules": [{**rule, "fault": {"stall_s": 1.0}} for rule in rules]}
