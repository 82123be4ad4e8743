"""What a model call costs beside the model: CPU a turn and a delta, through both engines and in both wire formats.

    python -m benchmarks.model

The scripted server answers at once, from a process of its own; each engine is measured in a fresh process. Aims for the
direct engine: 0.6 ms a turn, 25 µs a delta, and no litellm in memory.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from workers.llm.base import ChatMessage, Completed, ToolSpec
from workers.models import Models

DELTAS = 5000
REPEATS = 8  # the least of them counts: other processes only ever add
TURNS = 50
SCRIPT = {
    "rules": [
        {"when": {"user_contains": "deltas"}, "reply": {"text": "word " * (DELTAS // 5), "delta_chars": 1}},
        {"reply": {"text": "I read it.", "tool_calls": [{"name": "read", "arguments": {"path": "src/a.py"}}]}},
    ]
}
ENGINES = ("direct", "litellm")
PROVIDERS = {"openai": "/v1", "anthropic": ""}
SYSTEM = ChatMessage(role="system", content="You read files. " * 40)
TOOLS = [
    ToolSpec(name, f"The tool {name}. " * 10, {"type": "object", "properties": {"path": {"type": "string"}}})
    for name in ("bash", "edit", "glob", "grep", "list", "read", "task", "write")
]


async def ask(model, messages) -> Completed:
    async for event in model.stream(messages, TOOLS):
        if isinstance(event, Completed):
            return event
    raise SystemExit(f"{model.name} failed: {event}")


async def conversation(model, turns: int) -> float:
    """CPU milliseconds a turn of a conversation that grows by a call and its answer."""
    messages = [SYSTEM, ChatMessage(role="user", content="Read it all.")]
    began = time.process_time()
    for _ in range(turns):
        reply = await ask(model, messages)
        messages.append(ChatMessage(role="assistant", content=reply.text, tool_calls=reply.tool_calls))
        messages += [
            ChatMessage(role="tool", tool_call_id=call.id, name=call.name, content="x = 1\n" * 50)
            for call in reply.tool_calls
        ]
    return (time.process_time() - began) * 1000 / turns


async def deltas(model) -> float:
    """CPU microseconds a delta of a reply of 5,000."""
    began = time.process_time()
    reply = await ask(model, [SYSTEM, ChatMessage(role="user", content="deltas")])
    assert len(reply.text) == DELTAS
    return (time.process_time() - began) * 1e6 / DELTAS


async def measure(engine: str, url: str) -> dict[str, object]:
    figures: dict[str, object] = {}
    for provider, path in PROVIDERS.items():
        name = f"{provider}/scripted"
        model = Models(name, url + path, "sk-nobody-0123456789", engine=engine).named(name)
        began = time.perf_counter()
        await ask(model, [SYSTEM])
        figures[provider] = {
            "first_call_s": round(time.perf_counter() - began, 2),
            "turn_ms_10": round(min([await conversation(model, 10) for _ in range(REPEATS)]), 2),
            "turn_ms_50": round(min([await conversation(model, TURNS) for _ in range(REPEATS)]), 2),
            "delta_us": round(min([await deltas(model) for _ in range(REPEATS)]), 1),
        }
    figures["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    figures["litellm_loaded"] = "litellm" in sys.modules
    return figures


def compare() -> None:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.json"
        script.write_text(json.dumps(SCRIPT))
        command = [sys.executable, "-m", "workers.llm.scripted_server", "--script", str(script)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                url = json.loads(server.stdout.readline())["url"]
                figures = {engine: measured(engine, url) for engine in ENGINES}
            finally:
                server.terminate()
    for engine, found in figures.items():
        for provider in PROVIDERS:
            row = found[provider]
            print(
                f"{engine:8} {provider:10} turn {row['turn_ms_50']:6.2f} ms (10 turns: {row['turn_ms_10']:.2f})   "
                f"delta {row['delta_us']:6.1f} us   first call {row['first_call_s']:.2f} s   "
                f"peak {found['peak_mib']} MiB"
            )
    print(json.dumps({"benchmark": "model", "turns": TURNS, "deltas": DELTAS, "figures": figures}))


def measured(engine: str, url: str) -> dict[str, dict[str, float]]:
    command = [sys.executable, "-m", "benchmarks.model", "--engine", engine, "--url", url]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.model", description=__doc__)
    parser.add_argument("--engine", choices=ENGINES, help="measure this one here, against the server at --url")
    parser.add_argument("--url")
    told = parser.parse_args()
    if told.engine:
        print(json.dumps(asyncio.run(measure(told.engine, told.url))))
    else:
        compare()


if __name__ == "__main__":
    main()
