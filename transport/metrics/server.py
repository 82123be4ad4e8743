"""The small HTTP server of a process: `/metrics`, `/healthz`, `/readyz`, and nothing else.

In threads of its own, so that it answers when the process's event loop does not.
"""

from __future__ import annotations

import socket
import socketserver
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

# One Prometheus, two kinds of probe, a person: more at once are nobody's we know.
CONNECTIONS_AT_ONCE = 16
REQUEST_TIMEOUT_S = 10.0
PLAIN = "text/plain; charset=utf-8"


class Page(NamedTuple):
    status: HTTPStatus
    content_type: str
    body: bytes


MakePage = Callable[[str], Page]  # from what the client says that it accepts

NOT_FOUND = Page(HTTPStatus.NOT_FOUND, PLAIN, b"there are /metrics, /healthz and /readyz\n")


def probe(fault: Callable[[], str]) -> MakePage:
    """200, or 503 with what is wrong."""

    def page(_accept: str) -> Page:
        said = fault()
        status = HTTPStatus.SERVICE_UNAVAILABLE if said else HTTPStatus.OK
        return Page(status, PLAIN, f"{said or 'ok'}\n".encode())

    return page


def serve_pages(pages: Mapping[str, MakePage], port: int, host: str) -> AbstractContextManager[int]:
    """Listen now, raising `OSError` where that cannot be, and answer until the end of the context; the port (0 asks
    for any free one)."""
    return _serving(_Server(pages, host, port))


@contextmanager
def _serving(listening: _Server) -> Generator[int]:
    with listening as server:
        thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False  # a client that says nothing does not keep a process from ending

    def __init__(self, pages: Mapping[str, MakePage], host: str, port: int) -> None:
        self.pages = pages
        self._room = threading.BoundedSemaphore(CONNECTIONS_AT_ONCE)
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away before it had its answer."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server  # pyright: ignore[reportIncompatibleVariableOverride]
    timeout = REQUEST_TIMEOUT_S

    def setup(self) -> None:
        """The timeout is for each receive alone: who sends a byte now and then would keep its place."""
        super().setup()
        self._ending = threading.Timer(REQUEST_TIMEOUT_S, self._end)
        self._ending.daemon = True
        self._ending.start()

    def finish(self) -> None:
        self._ending.cancel()
        super().finish()

    def _end(self) -> None:
        with suppress(OSError):  # the client is gone already, or has its answer
            self.connection.shutdown(socket.SHUT_RDWR)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def _answer(self, *, with_body: bool) -> None:
        make = self.server.pages.get(self.path.partition("?")[0])
        page = make(self.headers.get("Accept", "")) if make else NOT_FOUND
        self._send(page, with_body=with_body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """What cannot be read, and other methods: without a page that tells of us, or repeats what was asked."""
        self.close_connection = True
        self._send(Page(HTTPStatus(code), PLAIN, b""), with_body=False)

    def _send(self, page: Page, *, with_body: bool) -> None:
        self.send_response_only(page.status)
        self.send_header("Content-Type", page.content_type)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        if with_body:
            self.wfile.write(page.body)

    def log_message(self, format: str, *args: Any) -> None:
        """A scrape every few seconds is no news."""
