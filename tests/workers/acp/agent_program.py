"""An agent that speaks the Agent Client Protocol, of the standard library alone: it runs inside the sandbox.

What it does stands in its prompt: a line `>> NAME ARGUMENT …` is a step, in their order; those that it is told of as
done before are not. What the steps said is its last message.
"""

import json
import os
import signal
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import suppress

SESSION = "s1"
numbers = iter(range(1, 10**9))
earlier, before = [], []


def say(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tell(sort, /, **fields):
    update = {"sessionUpdate": sort, **fields}
    say({"method": "session/update", "params": {"sessionId": SESSION, "update": update}})


def words(text):
    return {"type": "text", "text": text}


def ask(method, **params):
    """The result, or the error's message behind `ERROR `."""
    number = next(numbers)
    say({"id": number, "method": method, "params": {"sessionId": SESSION, **params}})
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message.get("result") if "result" in message else f"ERROR {message['error']['message']}"
    sys.exit(0)


def http(path, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"].removesuffix("/v1") + path, data)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        return f"HTTP {error.code} {error.read().decode()}"
    except OSError:
        return "HTTP: nobody is there"


def openai(text, stream=False):
    body = {"model": "any", "messages": [{"role": "user", "content": text}], "stream": stream}
    said = http("/v1/chat/completions", body)
    if stream or said.startswith("HTTP"):
        return said
    return json.loads(said)["choices"][0]["message"]["content"]


def anthropic(text):
    body = {"model": "any", "max_tokens": 10, "messages": [{"role": "user", "content": text}]}
    return json.loads(http("/v1/messages", body))["content"][0]["text"]


def edits(path, text):
    """By itself, as most programs do: told, asked for, done."""
    call = {"toolCallId": "edit1", "title": f"Edit {path}", "kind": "edit", "locations": [{"path": path}]}
    tell("tool_call", status="pending", rawInput={"path": path}, **call)
    options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
    outcome = ask("session/request_permission", toolCall=call, options=options)["outcome"]
    if outcome.get("optionId") != "allow_once":
        tell("tool_call_update", toolCallId="edit1", status="failed")
        return outcome.get("optionId") or outcome["outcome"]
    with open(path, "w") as file:
        file.write(text)
    tell(
        "tool_call_update",
        toolCallId="edit1",
        status="completed",
        content=[{"type": "content", "content": words(text)}],
    )
    return "edited"


class Stopped(Exception):
    pass


def edits_or_stops(path, text, beside=""):
    """As some programs do: who is refused says no other word in this turn. What its model called for beside the edit
    is done all the same."""
    if edits(path, text) != "edited":
        if beside:
            tell("tool_call", toolCallId="beside", title=beside, kind="execute", status="completed")
        raise Stopped
    return "edited"


def permission(kind, title, command=""):
    call = {"toolCallId": "p1", "title": title, "kind": kind, "rawInput": {"command": command}}
    options = [{"optionId": each, "name": each, "kind": each} for each in ("allow_once", "reject_once")]
    return ask("session/request_permission", toolCall=call, options=options)["outcome"].get("optionId")


def read(path, line=None, limit=None):
    found = ask("fs/read_text_file", path=path, line=line, limit=limit)
    return found if isinstance(found, str) else found["content"]


def write(path, text):
    found = ask("fs/write_text_file", path=path, content=text)
    return found if isinstance(found, str) else "written"


def run(*command):
    opened = ask("terminal/create", command=" ".join(command))
    if isinstance(opened, str):
        return opened
    ended = ask("terminal/wait_for_exit", terminalId=opened["terminalId"])
    output = ask("terminal/output", terminalId=opened["terminalId"])
    ask("terminal/release", terminalId=opened["terminalId"])
    return f"{ended['exitCode']} {output['output'].strip()}"


def kill(*command):
    opened = ask("terminal/create", command=" ".join(command))
    ask("terminal/kill", terminalId=opened["terminalId"])
    return ask("terminal/wait_for_exit", terminalId=opened["terminalId"]).get("signal")


def runs_until_killed(command):
    name = ask("terminal/create", command=command)["terminalId"]
    ended = ask("terminal/wait_for_exit", terminalId=name)
    return f"{ended.get('signal')} {ask('terminal/output', terminalId=name)['truncated']}"


def plan(*entries):
    tell("plan", entries=[{"content": entry, "priority": "high", "status": "pending"} for entry in entries])
    tell("agent_thought_chunk", content=words("thinking"))


def pause():
    """Until somebody says in the sandbox that it may go on."""
    plan("wait")
    until_told()


def until_told():
    while not os.path.exists("/tmp/go"):
        time.sleep(0.02)


def begins(words_of_it, title):
    """Something that is not over yet: half a sentence, and a call."""
    tell("agent_message_chunk", content=words(words_of_it))
    tell("tool_call", toolCallId="begun", title=title, kind="execute", status="in_progress")


def ends():
    tell("tool_call_update", toolCallId="begun", status="completed")


def within(kind, title, name, *arguments):
    """A step as the doing of a call that is told of, too."""
    call_id = f"within{next(numbers)}"
    tell("tool_call", toolCallId=call_id, title=title, kind=kind, status="in_progress")
    said = STEPS[name](*arguments)
    tell("tool_call_update", toolCallId=call_id, status="completed")
    return said


def recalls(words):
    return words in earlier[0]


def env(name):
    return os.environ.get(name, "")


def die(code):
    sys.stderr.write("Traceback: \x1b[31mthe program is broken\n")
    sys.stderr.flush()
    os._exit(int(code))


def asks_and_dies(path):
    call = {"toolCallId": "d1", "title": "Edit", "kind": "edit", "locations": [{"path": path}]}
    say(
        {
            "id": next(numbers),
            "method": "session/request_permission",
            "params": {
                "sessionId": SESSION,
                "toolCall": call,
                "options": [],
            },
        }
    )
    until_told()
    die(3)


def gives_up(text):
    """A question that its asker does not wait for."""
    body = {"model": "any", "messages": [{"role": "user", "content": text}]}
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", json.dumps(body).encode())
    try:
        urllib.request.urlopen(request, timeout=1)
    except OSError as error:
        return type(error).__name__


def aside(text):
    """Some ask their model for a title beside their work."""
    threading.Thread(target=openai, args=(text,), daemon=True).start()


def pays_and_dies(text):
    aside(text)
    until_told()
    die(3)


def hang():
    time.sleep(3600)


def stays():
    """Whoever asks it to end; so does a child in a session of its own."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.fork() == 0:
        os.setsid()
    tell("agent_message_chunk", content=words("I stay here. "))
    hang()


def long_line():
    for _ in range(100):
        sys.stdout.write("x" * 1_000_000)
    sys.stdout.flush()
    hang()


def terminals(count):
    """How many it got, none of which it gave back."""
    return sum(isinstance(ask("terminal/create", command="true"), dict) for _ in range(count))


def garbage():
    for _ in range(300):
        sys.stdout.write("no json at all\n")
    for odd in ("[1]", '{"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": 7}}', "{" * 2000):
        sys.stdout.write(odd + "\n")
    sys.stdout.flush()
    time.sleep(3600)


def flood():
    while True:
        tell("agent_message_chunk", content=words("x" * 100_000))


def speaks_for_the_relay(line):
    """It has the same user."""
    for process in filter(str.isdigit, os.listdir("/proc")):
        with suppress(FileNotFoundError), open(f"/proc/{process}/cmdline", "rb") as command:
            if b"ThreadingHTTPServer" in command.read():
                with open(f"/proc/{process}/fd/1", "w") as output:
                    output.write(line + "\n")


def noise():
    """Other things, too, which a program's libraries print."""
    sys.stdout.write("a banner\n")
    tell("some_new_kind", what="ever")
    lie = {"sessionUpdate": "agent_message_chunk", "content": words("LIE")}
    say({"method": "session/update", "params": {"sessionId": "other", "update": lie}})


def raw(line):
    """Whatever it is."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def deep(levels):
    """A call whose input is nested so deep; as text, for this program cannot write it either."""
    call = '{"sessionUpdate": "tool_call", "toolCallId": "deep", "title": "Deep", "kind": "execute", "rawInput": %s}'
    nested = '{"a":' * levels + "1" + "}" * levels
    raw('{"method": "session/update", "params": {"sessionId": "s1", "update": %s}}' % (call % nested))


def many(count):
    tell("plan", entries=[0] * count)
    hang()


def split(text):
    """In the middle of a character, as JavaScript cuts it."""
    half = json.loads('"\\ud83d"')
    tell("agent_message_chunk", content=words(text + half))
    told = {"title": f"Cut {half}", "kind": "execute", "rawInput": {"command": half}}
    tell("tool_call", toolCallId=f"cut{half}", status="completed", **told)


def opens(command, *env):
    """A terminal: what is wrong with it, if it could not be."""
    opened = ask("terminal/create", command=command, env=[{"name": name, "value": "1"} for name in env])
    return opened if isinstance(opened, str) else "opened"


def asks_about(count):
    """So many files in one question."""
    call = {"toolCallId": "all", "kind": "edit", "locations": [{"path": f"/workspace/src/{n}"} for n in range(count)]}
    return ask("session/request_permission", toolCall=call, options=[])


def asks_and_ends(path):
    """It does not wait for the answer."""
    call = {"toolCallId": "edit1", "title": f"Edit {path}", "kind": "edit", "locations": [{"path": path}]}
    params = {"sessionId": SESSION, "toolCall": call, "options": []}
    say({"id": next(numbers), "method": "session/request_permission", "params": params})
    raise Stopped


def answers_badly():
    """To the prompt, which is what it was asked last."""
    say({"id": asked_last, "error": "no object"})
    hang()


def answers_before():
    """And once more at its end."""
    say({"id": asked_last, "result": {"stopReason": "end_turn"}})
    say({"id": asked_last + 1, "result": {"stopReason": "end_turn"}})
    say({"id": "1", "result": {}})
    say({"id": asked_last + 2, "method": "session/none", "params": {}})


FILES = (edits, edits_or_stops, permission, read, write)
COMMANDS = (run, kill, runs_until_killed, env, pause, begins, ends, within, recalls, terminals)
TROUBLE = (die, asks_and_dies, pays_and_dies, hang, stays, garbage, flood, long_line, noise, speaks_for_the_relay)
HOSTILE = (raw, deep, many, split, opens, asks_about, asks_and_ends, answers_badly, answers_before)
STEPS = {
    each.__name__: each for each in (openai, anthropic, aside, gives_up, plan, *FILES, *COMMANDS, *TROUBLE, *HOSTILE)
}
STEPS["get"] = STEPS["post"] = http
STEPS["stream"] = lambda text: openai(text, stream=True)


def prompted(blocks):
    said = []
    texts = [block["text"] for block in blocks]
    earlier[:] = [text for text in texts if text.startswith("Earlier in this session")]
    asked = [text for text in texts if text not in earlier]
    if "STUBBORN" in os.environ:
        before.extend(asked)
        asked = before
    for line in "\n".join(asked).splitlines():
        if line.startswith(">> "):
            name, *arguments = json.loads(line[3:])
            try:
                said.append(str(STEPS[name](*arguments)))
            except Stopped:
                return {"stopReason": os.environ.get("STOP_AT_NO", "end_turn")}
    tell("agent_message_chunk", content=words("\n".join(said) or f"heard: {blocks[-1]['text']}"))
    return {"stopReason": os.environ.get("STOP", "end_turn")}


def answered(message):
    match message["method"]:
        case "initialize":
            if "EARLY" in os.environ:  # some have their model say something before they are ready
                openai("early")
            return {"protocolVersion": 1, "agentCapabilities": {}}
        case "session/new":
            modes = {
                "currentModeId": "code",
                "availableModes": [{"id": "code", "name": "Code"}, {"id": "look", "name": "Look"}],
            }
            return {"sessionId": SESSION, "modes": modes}
        case "session/set_mode":
            os.environ["MODE"] = message["params"]["modeId"]
            return {}
        case "session/prompt":
            return prompted(message["params"]["prompt"])


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        asked_last = message["id"]
        say({"id": message["id"], "result": answered(message)})
