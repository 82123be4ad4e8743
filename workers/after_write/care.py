"""The care for the files of one task: formatted at once, then looked at by language servers that live as long as it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Self

from envelope.events import Event, WarningRaised
from sandbox.base import Command
from sandbox.errors import SandboxError, SandboxLost

from ..delivery.failures import OUTAGES
from ..tools.base import ToolContext
from ..tools.errors import ToolError
from ..tools.files import digest, load_if_there
from .diagnostics import errors_text
from .language_client import LanguageClient, ServerGone
from .settings import AfterWrite, Chosen, Formatter, LanguageServer
from .workspace_files import Listing, changed, files_now

# Tries to start one server in a task: one that dies again is broken, and starting it takes time.
MAX_STARTS = 3


class FileCare:
    """What goes wrong with a program is a warning; only a lost sandbox is raised."""

    def __init__(self, settings: AfterWrite, emit: Callable[[Event], None]) -> None:
        self._formatters: Chosen[Formatter] = Chosen(settings.formatters)
        self._servers: Chosen[LanguageServer] = Chosen(settings.language_servers)
        self._emit = emit
        self._clients: dict[str, LanguageClient] = {}
        self._starts: dict[str, int] = {}
        self._seen: dict[str, Listing | None] = {}  # by server: the files as it knows them
        self._one_at_a_time = asyncio.Lock()

    async def __call__(self, context: ToolContext, paths: Sequence[str]) -> str:
        """What the model should know of the files that were written; empty when all is well."""
        async with self._one_at_a_time:
            said = [await self._look_after(context, path) for path in paths]
        return "\n".join(filter(None, said))

    async def _look_after(self, context: ToolContext, path: str) -> str:
        formatted = await self._format(context, path)
        return "\n".join(filter(None, [formatted, await self._diagnose(context, path)]))

    async def _format(self, context: ToolContext, path: str) -> str:
        chosen = self._formatters.of(path)
        if chosen is None:
            return ""
        name, formatter = chosen
        try:
            return await self._formatted(context, path, name, formatter)
        except SandboxLost:
            raise
        except (SandboxError, ToolError) as error:  # the file is written all the same
            self._emit(WarningRaised(message=f"the formatter {name} did not format {path}: {error}"))
            return ""

    async def _formatted(self, context: ToolContext, path: str, name: str, formatter: Formatter) -> str:
        sandbox = await context.sandbox()
        if (before := await load_if_there(sandbox, path)) is None:
            return ""
        command = [path if word == "$FILE" else word for word in formatter.command]
        ended = await sandbox.exec(Command(command, timeout_s=formatter.timeout_s))
        after = await load_if_there(sandbox, path)
        if after is None or after == before:
            return ""
        context.read_digests[path] = digest(after)
        return f"({path} was formatted by {name}; read it before you edit it again.)" if not ended.exit_code else ""

    async def _diagnose(self, context: ToolContext, path: str) -> str:
        chosen = self._servers.of(path)
        if chosen is None or self._starts.get(chosen[0], 0) > MAX_STARTS:
            return ""
        name, server = chosen
        try:
            content = await load_if_there(await context.sandbox(), path)
            if content is None:
                return ""
            client = await self._client(context, name, server)
            await self._catch_up(context, client, name, server, but=path)
            return errors_text(path, await client.diagnose(path, content.decode("utf-8", "replace")))
        except (SandboxLost, *OUTAGES):
            raise
        except (ServerGone, TimeoutError, SandboxError, ToolError) as error:
            await self._gone(name)
            why = "it has ended" if isinstance(error, ServerGone) else str(error) or "it took too long to start"
            said = f"the language server {name} did not look at {path}: {why}"
            self._emit(WarningRaised(message=said))
            rest = "is started again with the next write" if self._starts[name] <= MAX_STARTS else "is not asked again"
            return f"({said}. It {rest}; until it answers, no errors are shown here.)"

    async def _catch_up(
        self, context: ToolContext, client: LanguageClient, name: str, server: LanguageServer, *, but: str
    ) -> None:
        """What was changed since the server last looked, by commands above all: else it judges what is gone."""
        sandbox, before = await context.sandbox(), self._seen.get(name)
        now = self._seen[name] = await files_now(sandbox, server.extensions)
        if before is None or now is None or not (changes := changed(before, now)):
            return
        contents = {path: await load_if_there(sandbox, path) for path in client.opened(changes) if path != but}
        texts = {path: text.decode("utf-8", "replace") for path, text in contents.items() if text is not None}
        await client.hear_of({path: change for path, change in changes.items() if path != but}, texts)

    async def _client(self, context: ToolContext, name: str, server: LanguageServer) -> LanguageClient:
        if name not in self._clients:
            self._starts[name] = self._starts.get(name, 0) + 1
            self._seen[name] = await files_now(await context.sandbox(), server.extensions)
            self._clients[name] = await LanguageClient.start(await context.sandbox(), server)
        return self._clients[name]

    async def _gone(self, name: str) -> None:
        if client := self._clients.pop(name, None):
            await client.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*map(self._gone, list(self._clients)))
