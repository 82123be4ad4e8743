"""A language server of one task, asked for one thing: what is wrong with a file as it now is."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self, cast
from urllib.parse import quote

from sandbox.base import WORKSPACE, Sandbox, Service
from sandbox.errors import SandboxError

from .protocol import BadMessage, Message, encode, take_messages
from .settings import LanguageServer
from .workspace_files import Change

# A server that reads a whole project first is not ready sooner.
START_TIMEOUT_S = 30.0
# Only what we understand is offered: diagnostics that are sent to us, of the version that they are for.
CAPABILITIES = {
    "textDocument": {"publishDiagnostics": {"versionSupport": True}, "synchronization": {}},
    # who may register for changes of files waits for them, and does not watch the disk itself
    "workspace": {"didChangeWatchedFiles": {"dynamicRegistration": True}},
}


class ServerGone(Exception):
    """It ended, or says what is not the protocol."""


class LanguageClient:
    def __init__(self, service: Service, server: LanguageServer) -> None:
        self._service = service
        self._server = server
        self._answer: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._versions: dict[str, int] = {}
        self._open: set[str] = set()
        self._found: dict[str, Sequence[Any]] = {}  # by URI, of its newest version
        self._news = asyncio.Condition()
        self._hearing = asyncio.create_task(self._hear())

    @classmethod
    async def start(cls, sandbox: Sandbox, server: LanguageServer) -> Self:
        """Greeted, and ready for files. `ServerGone`, or `TimeoutError`."""
        client = cls(await sandbox.start(server.command), server)
        root = f"file://{WORKSPACE}"
        try:
            folders = [{"uri": root, "name": "workspace"}]
            greeting = {"processId": None, "rootUri": root, "workspaceFolders": folders, "capabilities": CAPABILITIES}
            await client._send({"id": 1, "method": "initialize", "params": greeting})
            async with asyncio.timeout(START_TIMEOUT_S):
                await client._answer
            await client._send({"method": "initialized", "params": {}})
        except BaseException:
            await client.close()
            raise
        return client

    def opened(self, paths: Iterable[str]) -> list[str]:
        """Those of which the server has the content from us, whatever is on the disk."""
        return [path for path in paths if _uri(path) in self._open]

    async def hear_of(self, changes: Mapping[str, Change], texts: Mapping[str, str]) -> None:
        """Files have changed on the disk. `texts`: of the open ones that are still there, what is in them now."""
        for path in self.opened(changes):
            if path in texts:
                await self._show(_uri(path), texts[path])
            else:
                self._open.discard(_uri(path))
                await self._send({"method": "textDocument/didClose", "params": {"textDocument": {"uri": _uri(path)}}})
        told = [{"uri": _uri(path), "type": int(change)} for path, change in changes.items()]
        await self._send({"method": "workspace/didChangeWatchedFiles", "params": {"changes": told}})

    async def diagnose(self, path: str, text: str) -> Sequence[Any]:
        """The diagnostics of the file with this content, as the server put them; none when it took too long."""
        uri = _uri(path)
        await self._show(uri, text)
        with suppress(TimeoutError):
            async with asyncio.timeout(self._server.wait_s), self._news:
                await self._news.wait_for(lambda: uri in self._found or self._hearing.done())
        if self._hearing.done():
            raise ServerGone
        return self._found.get(uri, ())

    async def _show(self, uri: str, text: str) -> None:
        """The file's content as a new version: what was said of others does not count any more."""
        version = self._versions[uri] = self._versions.get(uri, 0) + 1
        self._found.pop(uri, None)
        if uri not in self._open:
            self._open.add(uri)
            item = {"uri": uri, "languageId": self._server.language_id, "version": version, "text": text}
            await self._send({"method": "textDocument/didOpen", "params": {"textDocument": item}})
        else:
            changed = {"textDocument": {"uri": uri, "version": version}, "contentChanges": [{"text": text}]}
            await self._send({"method": "textDocument/didChange", "params": changed})

    async def close(self) -> None:
        self._hearing.cancel()
        await asyncio.gather(self._hearing, return_exceptions=True)
        with suppress(SandboxError):  # it is gone with its sandbox
            await self._service.stop()

    async def _send(self, message: Message) -> None:
        if self._hearing.done():
            raise ServerGone
        await self._service.send(encode(message))

    async def _hear(self) -> None:
        buffer = bytearray()
        try:
            while data := await self._service.receive():
                buffer += data
                for message in take_messages(buffer):
                    await self._take(message)
        except (BadMessage, SandboxError):
            return
        finally:
            if not self._answer.done():
                self._answer.set_exception(ServerGone())
                self._answer.exception()  # nobody may wait for it
            async with self._news:
                self._news.notify_all()

    async def _take(self, message: Message) -> None:
        match message:
            case {"method": "textDocument/publishDiagnostics", "params": {}}:
                await self._note(message["params"])
            case {"method": str(), "id": identity}:  # it asks us: for settings, to register. There is nothing to say
                await self._service.send(encode({"id": identity, "result": None}))
            case {"id": 1} if not self._answer.done():
                self._answer.set_result(message)
            case _:
                pass

    async def _note(self, params: Mapping[str, Any]) -> None:
        uri, version, found = params.get("uri"), params.get("version"), params.get("diagnostics")
        if not isinstance(uri, str) or not isinstance(found, list):
            return
        if version is None or version == self._versions.get(uri):
            async with self._news:
                self._found[uri] = cast(list[Any], found)
                self._news.notify_all()


def _uri(path: str) -> str:
    """As servers write it themselves: what they say of a file must be found again.

    >>> _uri("/workspace/a b.py")
    'file:///workspace/a%20b.py'
    """
    return f"file://{quote(path)}"
