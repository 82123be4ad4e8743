"""What asks the kernel or the host for more than is a sandbox's due, and is refused. One sandbox for all of it."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest


from .conftest import Arena

