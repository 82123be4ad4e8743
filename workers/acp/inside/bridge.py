"""Inside a sandbox: HTTP on its own loopback, carried over standard input and output to whoever started this.

A line out is `{"port": N}` first, then a request `{"id", "method", "path", "body"}`, or `{"id", "gone": true}` for
one whose client has left. A line in is a part of an answer: `{"id", "status", "type"}`, `{"id", "data"}` …,
`{"id", "end"}`.
"""

import itertools
import json
import queue
import select
import socket
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MAX_BODY_BYTES = 8 * 1024 * 1024  # the longest window (1M tokens) as text, twice
MAX_REQUESTS = 8  # at once; more wait, a thread each
LOOK_S = 0.5  # whether a client that waits for the beginning of its answer is still there

numbers = itertools.count(1)
answers: dict[int, "queue.SimpleQueue[dict[str, Any]]"] = {}
slots = threading.Semaphore(MAX_REQUESTS)
writing = threading.Lock()


def say(message: dict[str, Any]) -> None:
    with writing:
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 60  # for a head and a body; who has none to send holds no thread

    def do_GET(self) -> None:
        self._carry(b"")

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdigit() or int(length) > MAX_BODY_BYTES:
            self.close_connection = True
            self.send_error(413 if length.isdigit() else 411)
            return
        self._carry(self.rfile.read(int(length)))

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _carry(self, body: bytes) -> None:
        with slots:
            number = next(numbers)
            answer = answers[number] = queue.SimpleQueue()
            try:
                text = body.decode("utf-8", "replace")
                say({"id": number, "method": self.command, "path": self.path, "body": text})
                self._answer(answer)
            except OSError:
                self.close_connection = True
                say({"id": number, "gone": True})
            finally:
                del answers[number]

    def _answer(self, answer: "queue.SimpleQueue[dict[str, Any]]") -> None:
        head = self._first(answer)
        self.send_response(head["status"])
        self.send_header("Content-Type", head["type"])
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        while "end" not in (part := answer.get()):
            data = part["data"].encode()
            if data:
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        self.wfile.write(b"0\r\n\r\n")

    def _first(self, answer: "queue.SimpleQueue[dict[str, Any]]") -> dict[str, Any]:
        """A client that closes its end has left: nobody has written anything yet that would tell."""
        while True:
            try:
                return answer.get(timeout=LOOK_S)
            except queue.Empty:
                if self._has_left():
                    raise ConnectionAbortedError from None

    def _has_left(self) -> bool:
        can_read, _, _ = select.select([self.connection], [], [], 0)
        return bool(can_read) and self.connection.recv(1, socket.MSG_PEEK) == b""


def main() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    say({"port": server.server_address[1]})
    for line in sys.stdin:
        part = json.loads(line)
        if waiting := answers.get(part["id"]):
            waiting.put(part)


if __name__ == "__main__":
    main()
