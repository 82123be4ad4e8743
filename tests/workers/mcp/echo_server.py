"""An MCP server of the standard library alone, as the image has no other: it runs inside the sandbox.

Its tools: `echo` says its text again, `where` its folder and a variable, `crash` ends it, `sleep` never answers,
after `learn` there is one more.
"""

import json
import os
import sys

TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NOTHING = {"type": "object", "properties": {}}
TOOLS = {
    "echo": TEXT,
    "where": NOTHING,
    "crash": NOTHING,
    "sleep": NOTHING,
    "fail": NOTHING,
    "odd name!": NOTHING,
    "learn": NOTHING,
}


def call(name, arguments):
    if name == "crash":
        sys.exit(1)
    if name == "fail":
        return {"content": [{"type": "text", "text": "it did not work"}], "isError": True}
    if name == "learn":
        TOOLS["learnt"] = NOTHING
        sys.stdout.write('{"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}\n')
    text = {
        "learnt": "learnt it",
        "echo": arguments.get("text", ""),
        "where": f"{os.getcwd()} {os.environ.get('WHO')}",
    }.get(name, "odd")
    picture = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    return {"content": [{"type": "text", "text": text}, *([picture] if text == "picture" else [])]}


def answer(method, params):
    if method == "initialize":
        ours = {"name": "echo", "version": "1"}
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}},
            "serverInfo": ours,
        }
    if method == "tools/list":
        return {"tools": [{"name": n, "description": f"does {n}", "inputSchema": s} for n, s in TOOLS.items()]}
    if method == "tools/call":
        return call(params["name"], params.get("arguments") or {})
    return None


sys.stdout.write("a line that is no message\n")
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or (message["method"] == "tools/call" and message["params"]["name"] == "sleep"):
        continue
    result = answer(message["method"], message.get("params") or {})
    reply = {"result": result} if result is not None else {"error": {"code": -32601, "message": "no such method"}}
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], **reply}) + "\n")
    sys.stdout.flush()
