"""Bodies of JSON: who sends one is known before it is read, and reading it holds up nobody else.

What is wrong costs as much as what is right: each value of a body may become an error, or an object to look at. So
values are counted in the bytes, before anything is made of them, and bodies are read beside the loop, a few at a time,
with turns that are fair between tokens: whoever sends many waits for himself.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import defaultdict
from collections.abc import Callable, Coroutine
from functools import partial
from http import HTTPStatus
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from pydantic import BaseModel, ValidationError

from repo.fairness import Threads

from .access import CallerWith
from .problems import Problem

MAX_VALUES = 20_000
# What holds 10,000 things with fields of their own: a fan-out's items, a batch's document, a tool's arguments.
MAX_VALUES_OF_MANY = 100_000
MAX_STRANGERS_VALUES = 200  # of who shows no token: an answer by a link
# Of one token: bodies that come, or wait for what reads them. What more calls send is not taken from the network yet.
BODIES_AT_ONCE = 32
# Strings as a whole, and else what stands before a value. The end of the text ends a string, too: a search that began
# anew at each quote would take time by the square.
_SIGNS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[,\[{]', re.DOTALL)

Handler = Callable[[Request], Coroutine[Any, Any, Response]]


def require_few_values(content: bytes, limit: int) -> None:
    """`Problem` where JSON has more values, of any kind and depth. Strings are one each, whatever stands in them.

    >>> require_few_values(b'{"a": [1, 2, ",,,,,,"]}', 5)
    """
    try:
        content.decode()
    except UnicodeDecodeError as e:  # in another encoding the signs would not be where they are counted
        raise Problem(HTTPStatus.BAD_REQUEST, "the body is not UTF-8 text", hint="JSON is sent as UTF-8") from e
    if sum(map(content.count, (b",", b"[", b"{"))) <= limit:
        return
    signs = 0
    for sign in _SIGNS.finditer(content):
        signs += not sign[0].startswith(b'"')
        if signs > limit:
            hint = "send less at once: what is long can come as a blob, or as one text"
            raise Problem(HTTPStatus.UNPROCESSABLE_ENTITY, f"the body has more than {limit:,} values", hint=hint)


class Reading:
    """A server's. `places`: by token, or by what else its calls wait for in a line of their own."""

    def __init__(self) -> None:
        self.threads = Threads()
        self.places = defaultdict[str, asyncio.Semaphore](lambda: asyncio.Semaphore(BODIES_AT_ONCE))


class BodyRoute(APIRoute):
    """A route of the API: its caller's token and rights come first, then its body."""

    def get_route_handler(self) -> Handler:
        handle = super().get_route_handler()
        doors = [each.call for each in self.dependant.dependencies if isinstance(each.call, CallerWith)]
        kind: Any = self.body_field.field_info.annotation if self.body_field else None
        model = kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None
        limit = MAX_VALUES_OF_MANY if self.path.startswith("/v1/fanouts") else MAX_VALUES

        async def read(request: Request) -> Response:
            callers = [await door.admitted(request) for door in doors]
            if model is None or not _is_json(request):
                return await handle(request)
            reading: Reading = request.app.state.reading
            if not callers:
                content = await request.body()
                said = await reading.threads.run("", partial(_read, model, content, MAX_STRANGERS_VALUES))
                return await handle(_Read(request, content, said))
            who = callers[0].token.name
            async with reading.places[who]:
                content = await request.body()
                said = await reading.threads.run(who, partial(_read, model, content, limit))
            return await handle(_Read(request, content, said))

        return read


class _Read(Request):
    """One whose body is the model already: the framework takes it as it is."""

    def __init__(self, request: Request, content: bytes, said: BaseModel | None) -> None:
        super().__init__(request.scope, request.receive)
        self._content, self._said = content, said

    async def body(self) -> bytes:
        return self._content

    async def json(self) -> Any:
        return self._said


def _is_json(request: Request) -> bool:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind.startswith("application/") and (kind == "application/json" or kind.endswith("+json"))


def _read(model: type[BaseModel], content: bytes, limit: int) -> BaseModel | None:
    """None where there is no body: the framework says so."""
    if not content:
        return None
    require_few_values(content, limit)
    try:
        said = json.loads(content.decode())
    except json.JSONDecodeError as e:
        fault = {"type": "json_invalid", "loc": ("body", e.pos), "msg": f"JSON decode error: {e.msg}"}
        raise RequestValidationError([fault]) from e
    except (ValueError, RecursionError) as e:
        hint = "numbers have too many digits, or lists are too deep in each other"
        raise Problem(HTTPStatus.BAD_REQUEST, "the body cannot be read", hint=hint) from e
    try:
        return model.model_validate(said)
    except ValidationError as e:
        fault = e.errors(include_url=False, include_input=False, include_context=False)[0]
        raise RequestValidationError([{**fault, "loc": ("body", *fault["loc"])}]) from None
