"""A request's body as bytes."""

from __future__ import annotations

import json

from pydantic_core import to_json

from .wire import Json


class BodyEncoder:
    """Encodes the bodies of one model's requests. Their tools are nearly always the same, and are encoded once."""

    def __init__(self) -> None:
        self._tools: object = None
        self._encoded_tools = b""

    def encoded(self, body: Json) -> bytes:
        """JSON in UTF-8; with half a surrogate pair in it, which is no character there, in ASCII."""
        try:
            return self._whole(body)
        except ValueError:
            return json.dumps(body, separators=(",", ":")).encode()

    def _whole(self, body: Json) -> bytes:
        tools = body.get("tools")
        if not tools:
            return to_json(body)
        if tools != self._tools:
            self._tools, self._encoded_tools = tools, to_json(tools)
        rest = to_json({name: value for name, value in body.items() if name != "tools"})
        return b'%b,"tools":%b}' % (rest[:-1], self._encoded_tools)
