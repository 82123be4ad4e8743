"""Throws bytes at the decoder for as long as you like: `python tests/envelope/fuzz_codec.py --seconds 600`.

Any bytes are a message or an `EnvelopeError`, and what was read can be written and read again. Guided by coverage where
atheris is installed (no dependency of ours: `pip install atheris` into an environment of its own), else blind, from a
printed seed. A failure prints the bytes that did it, in hex; put them among the cases of `test_codec_bad_bytes.py`.
"""

# ruff: noqa: T201 (a command, which talks to whoever runs it)

from __future__ import annotations

import argparse
import atexit
import math
import random
import sys
import tempfile
import time
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

import msgpack  # noqa: E402

from envelope.codec import decode, encode  # noqa: E402
from envelope.errors import EnvelopeError  # noqa: E402
from envelope.signature import Keys  # noqa: E402

KEYS = Keys("k2", {"k1": b"1" * 32, "k2": b"2" * 32})
RAW, SIGNED = 0, 1  # what the first byte of an input says of the rest: a whole message, or a body that is to be signed
ODD: list[Any] = [
    None, True, -1, 0, 1, 2**63, 2**64 - 1, -(2**63), 1e308, math.nan, math.inf, "", "x" * 300, "\0", "é", b"", b"\xff",
    [], {}, [[]], {"kind": "state"}, msgpack.ExtType(5, b"x"), msgpack.Timestamp(1, 2), "request", "running",
]  # fmt: skip

outcomes: Counter[str] = Counter()


def look(data: bytes) -> None:
    """One input. Whatever is raised here is a finding."""
    whole = _signed(data[1:]) if data[:1] == bytes([SIGNED]) else data[1:]
    for keyring in (None, KEYS):
        try:
            message = decode(whole, keyring=keyring)
            again = encode(message)
            assert encode(decode(again)) == again, "what was read is not what was written"
            outcomes[type(message).__name__] += 1
        except EnvelopeError as error:
            assert error.message and "\n" not in error.message.split(":")[0], "not a sentence"
            outcomes[type(error).__name__] += 1


def _signed(body: bytes) -> bytes:
    return b"\x01" + msgpack.packb([body, *KEYS.sign(body)])


def seeds() -> list[bytes]:
    found = [file.read_bytes() for file in sorted((HERE / "golden").rglob("*.bin"))]
    bodies = [msgpack.unpackb(data[1:])[0] for data in found if data[:1] == b"\x01"]
    return [bytes([RAW]) + data for data in found] + [bytes([SIGNED]) + body for body in bodies]


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Half of the time other values in the same structure, which blind changes of bytes would hardly ever reach."""
    if chance.random() < 0.5:
        try:
            return data[:1] + msgpack.packb(_other(msgpack.unpackb(data[1:]), chance, rate=chance.choice((0.01, 0.05))))
        except (ValueError, TypeError, OverflowError):
            pass
    changed = bytearray(data)
    for _ in range(chance.randint(1, 8)):
        at = chance.randrange(len(changed) + 1)
        length = chance.choice((0, 0, 1, 1, 4))
        changed[at : at + length] = chance.randbytes(chance.choice((0, 1, 1, 5)))
    return bytes(changed)


def _other(value: Any, chance: random.Random, rate: float) -> Any:
    if chance.random() < rate:
        return chance.choice(ODD)
    if isinstance(value, dict):
        kept = {key: _other(inner, chance, rate) for key, inner in value.items() if chance.random() > rate / 4}
        return kept if chance.random() > rate else {**kept, f"new{chance.randrange(9)}": chance.choice(ODD)}
    if isinstance(value, list):
        counts = (0, 2) if chance.random() < rate else (1,)
        return [_other(inner, chance, rate) for inner in value for _ in range(chance.choice(counts))]
    return value


def blind(seconds: float, seed: int) -> None:
    chance, known, end_s = random.Random(seed), seeds(), time.monotonic() + seconds
    while time.monotonic() < end_s:
        data = mutated(chance.choice(known), chance)
        try:
            look(data)
        except BaseException:
            print("input:", data.hex(), file=sys.stderr)
            raise


def guided(seconds: float, seed: int) -> None:
    """Ends the process itself when the time is over."""
    import atheris  # pyright: ignore[reportMissingImports]

    def mutate(data: bytes, max_size: int, chosen: int) -> bytes:
        chance = random.Random(chosen)
        changed = mutated(data, chance) if chance.random() < 0.7 else atheris.Mutate(data, len(data))
        return changed[:max_size]

    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        for number, data in enumerate(seeds()):
            (Path(folder) / str(number)).write_bytes(data)
        options = [f"-max_total_time={math.ceil(seconds)}", f"-seed={seed}", "-max_len=8192", "-print_final_stats=1"]
        atheris.instrument_all()
        atheris.Setup([sys.argv[0], folder, *options, f"-artifact_prefix={folder}/"], look, custom_mutator=mutate)
        atheris.Fuzz()


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=60)
    arguments.add_argument("--seed", type=int, default=random.randrange(1, 2**31))
    chosen = arguments.parse_args()
    engine = guided if find_spec("atheris") else blind
    print(f"{engine.__name__}, seed {chosen.seed}", flush=True)
    # the guided one ends the process by itself
    atexit.register(lambda: print(f"{sum(outcomes.values())} decodings: {dict(outcomes)}"))
    engine(chosen.seconds, chosen.seed)


if __name__ == "__main__":
    main()
