from __future__ import annotations

import socket

import pytest


@pytest.fixture
def port() -> int:
    """One that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
