"""What the redis library would load beside itself, and we never use, is loaded on its first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

HAS_LOADED = "import sys; print('cryptography.x509' in sys.modules, end=' ')\n"


@pytest.mark.parametrize(
    ("use", "loaded"),
    [
        ("import jwt", "False"),
        ("import importlib.util; importlib.util.find_spec('jwt')", "False"),
        ("import jwt; assert jwt.decode and sys.modules['jwt'].encode", "True"),
        ("from jwt.algorithms import RSAAlgorithm; import jwt; assert jwt.algorithms.RSAAlgorithm", "True"),
    ],
)
def test_tokens_of_others_are_loaded_when_somebody_uses_them(use: str, loaded: str):
    program = f"import transport.redis\n{HAS_LOADED}{use}\n{HAS_LOADED}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", loaded]


def test_what_was_loaded_before_stays_as_it_is():
    program = "import jwt; before = jwt\nimport transport.redis, sys; assert sys.modules['jwt'] is before"
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0
