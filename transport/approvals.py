"""What workers may verify and never make: people's answers, links by which one is given, seals of the audit log.

All of it is signed under Ed25519 keys (the approval keys). Their private file stands beside the keyring of whoever lets
people decide, and is written as the keyring is; workers have the public file alone. What is signed begins with what it
is for, so that no signature stands for anything else.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from envelope.errors import BadSignature
from envelope.ids import digest_of
from envelope.signature import Keyring, Keys, PublicKeys, ed25519_public, ed25519_sign

from . import keyring
from .audit import TIMEOUT
from .errors import Misconfigured
from .keyring import Followed
from .raising import ASK_FOR_MORE, TENANTS

PRIVATE = "approval-keys.json"
PUBLIC = "approval-keys.pub.json"
FIRST_ID = "a1"
RECORDED = ("trace", "asked", "sha256", "key_id", "mac")  # of an answer, in the audit log, for whoever verifies it
# So long after a fleet got its approval keys, what the release before signed with the keyring is taken, and answers
# that nobody signed are told as that release's. Its links and seals are not needed for longer: an ask waits for a day
# where nobody says otherwise, and a log is sealed each minute.
UPGRADE_MS = 24 * 3600 * 1000
_ANSWER = "muster answer\n"  # nothing else that is signed begins so


@dataclass(frozen=True, slots=True)
class Answer:
    """The one answer that an ask got: of two people who answer at once, the first.

    `asked`: the digest of what was asked, as whoever answered saw it (`envelope.asks.asked_digest`). `mac` is over all
    of it, under the approval key `key_id`; empty where nobody has signed. `raw`: as it stands in the store.
    """

    text: str
    by: str
    at_ms: int
    asked: str = ""
    key_id: str = ""
    mac: str = ""
    raw: bytes = field(default=b"", compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Subject:
    """Which ask an answer is to."""

    fleet: str
    trace_id: str
    task_id: str
    ask_id: str

    def statement(self, text_sha256: str, by: str, asked: str) -> bytes:
        parts = (self.fleet, self.trace_id, self.task_id, self.ask_id, text_sha256, by, asked)
        return f"{_ANSWER}{digest_of(*parts)}".encode()


class Approvals:
    """The approval keys as a process holds them, followed while their files change.

    Without any (`are_known` is False: a fleet of an earlier release, a worker that was given no public file) every
    answer is taken, as it was before there were any.
    """

    def __init__(
        self, private: Callable[[], Keys | None], public: Callable[[], PublicKeys], has_changed: Callable[[], bool]
    ) -> None:
        self._private, self._public, self._has_changed = private, public, has_changed

    @property
    def are_known(self) -> bool:
        return bool(self._public().keys)

    @property
    def can_sign(self) -> bool:
        return self._private() is not None

    @property
    def since_ms(self) -> int:
        return self._public().since_ms

    def sign(self, body: bytes) -> tuple[str, bytes]:
        """Whoever `can_sign`."""
        keys = self._private()
        if keys is None:
            hint = f"give it {PRIVATE}, beside the keyring, where people decide"
            raise Misconfigured("this program holds no approval key", hint=hint)
        return keys.current, ed25519_sign(keys.keys[keys.current], body)

    def verify(self, body: bytes, key_id: str, mac: bytes) -> None:
        self._verify(body, key_id, mac, also_retired=False)

    def _verify(self, body: bytes, key_id: str, mac: bytes, *, also_retired: bool) -> None:
        try:
            self._public().verify(body, key_id, mac, also_retired=also_retired)
        except BadSignature:
            if not mac or not self._has_changed():
                raise
            self._public().verify(body, key_id, mac, also_retired=also_retired)

    def signed(self, subject: Subject, text: str, by: str, asked: str) -> dict[str, str]:
        """What stands in an answer beside its text; nothing where nobody can sign it, nor for the clock."""
        if by == TIMEOUT or not self.can_sign:
            return {}
        key_id, mac = self.sign(subject.statement(sha256(text), by, asked))
        return {"asked": asked, "key_id": key_id, "mac": mac.hex()}

    def fault(self, subject: Subject, answer: Answer) -> str:
        """Why an answer is nobody's; empty for one that is signed, and for all where no keys are known."""
        if not self.are_known:
            return ""
        statement = subject.statement(sha256(answer.text), answer.by, answer.asked)
        return self._fault(statement, answer.key_id, answer.mac)

    def is_forged(self, subject: Subject, answer: Answer) -> bool:
        """Nobody signs that a cap of money was raised (the queue says so, and who waits for it looks at the cap itself)
        nor that nobody has answered in time (a worker says so)."""
        by_rule = answer.by == TIMEOUT or subject.ask_id.startswith((ASK_FOR_MORE, TENANTS))
        return not by_rule and bool(self.fault(subject, answer))

    def fault_of_record(self, subject: Subject, by: str, details: Mapping[str, Any]) -> str:
        """The same of an answer as the audit log has it, which holds no more of a long text than its digest."""
        asked, text_sha256, key_id, mac = (str(details.get(name, "")) for name in ("asked", "sha256", "key_id", "mac"))
        statement = subject.statement(text_sha256, by, asked)
        return self._fault(statement, key_id, mac, also_retired=True)

    def _fault(self, statement: bytes, key_id: str, mac: str, *, also_retired: bool = False) -> str:
        try:
            self._verify(statement, key_id, bytes.fromhex(mac), also_retired=also_retired)
        except (BadSignature, ValueError) as error:
            return str(error)
        return ""


class SealKeys:
    """A keyring for what releases before signed with the fleet's: it signs with the approval keys where it can, and
    takes the old signatures for as long as those keys are new (or are none)."""

    def __init__(self, approvals: Approvals, old: Keyring, now_ms: Callable[[], int] | None = None) -> None:
        self._approvals, self._old = approvals, old
        self._now_ms = now_ms or _now_ms

    def sign(self, body: bytes) -> tuple[str, bytes]:
        return (self._approvals if self._approvals.can_sign else self._old).sign(body)

    def verify(self, body: bytes, key_id: str, mac: bytes) -> None:
        try:
            self._approvals.verify(body, key_id, mac)
        except BadSignature:
            if self._approvals.are_known and self._now_ms() >= self._approvals.since_ms + UPGRADE_MS:
                raise
            self._old.verify(body, key_id, mac)


def fresh() -> Approvals:
    """Of one new key, for a fleet that lives in one process."""
    keys = keyring.fresh(FIRST_ID)
    public = public_of(keys)
    return Approvals(lambda: keys, lambda: public, lambda: False)


def none() -> Approvals:
    public = PublicKeys()
    return Approvals(lambda: None, lambda: public, lambda: False)


def verifying(approvals: Approvals) -> Approvals:
    """The same without the private keys, as a worker holds them."""
    return Approvals(lambda: None, lambda: approvals._public(), lambda: False)  # pyright: ignore[reportPrivateUsage]


def at(keyring_path: Path, *, approves: bool, clock: Callable[[], float] = time.monotonic) -> Approvals:
    """The keys in the files beside a keyring; there may be none yet. Who `approves` reads the private file, too.

    `Misconfigured` for files that are none, that others may read (or, of the public one, write).
    """
    public = Followed(keyring_path.with_name(PUBLIC), read_public, absent=PublicKeys(), clock=clock)
    if not approves:
        return Approvals(lambda: None, public.look, public.has_changed)
    private = Followed(keyring_path.with_name(PRIVATE), _read_private, absent=_NO_KEYS, clock=clock)

    def all_public() -> PublicKeys:
        """Who was given the private file alone knows its public keys all the same."""
        known, keys = public.look(), private.look().keys
        return known if keys is None or known.keys else public_of(keys)

    return Approvals(lambda: private.look().keys, all_public, public.has_changed)


@dataclass(frozen=True, slots=True)
class _Private:
    keys: Keys | None


_NO_KEYS = _Private(None)


def _read_private(path: Path) -> _Private:
    keys = keyring.read(path)
    if any(len(key) != keyring.KEY_BYTES for key in keys.keys.values()):
        raise Misconfigured(f"{path} does not hold approval keys", hint=f"each is of {keyring.KEY_BYTES} bytes")
    return _Private(keys)


def create(keyring_path: Path, *, since_ms: int) -> bool:
    """Both files beside a keyring, where there is none of them: who was given the public one makes no keys."""
    private, public = keyring_path.with_name(PRIVATE), keyring_path.with_name(PUBLIC)
    is_first = not private.exists() and not public.exists()
    if is_first:
        keyring.create(private, keyring.fresh(FIRST_ID))
    if private.exists() and not public.exists():  # or whoever made the first died before the second
        write_public(public, public_of(keyring.read(private), since_ms=since_ms))
    return is_first


def public_of(keys: Keys, before: PublicKeys | None = None, *, since_ms: int = 0) -> PublicKeys:
    """What others verify with. `before`: what stood there until now; what is in it and no key any more was retired."""
    known = {key_id: ed25519_public(seed) for key_id, seed in keys.keys.items()}
    if before is None:
        return PublicKeys(known, {}, since_ms)
    retired = {key_id: key for key_id, key in {**before.retired, **before.keys}.items() if key_id not in known}
    return PublicKeys(known, retired, before.since_ms)


def read_public(path: Path) -> PublicKeys:
    """`Misconfigured` for what is none, or what others may write; `OSError` when unreadable."""
    if path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise Misconfigured(f"others may write the public keys {path}", hint=f"run: chmod go-w {path}")
    try:
        content = json.loads(path.read_text())
        keys, retired = (
            {key_id: bytes.fromhex(key) for key_id, key in content.get(name, {}).items()}
            for name in ("keys", "retired")
        )
        return PublicKeys(keys, retired, int(content.get("since_ms", 0)))
    except (ValueError, TypeError, AttributeError) as error:
        hint = "copy it again from where people decide; muster keys rotate writes it anew there"
        raise Misconfigured(f"{path} does not hold public keys", hint=hint) from error


def write_public(path: Path, public: PublicKeys) -> None:
    """Readers see the old file or the new one, never a half. Anybody may read it."""
    content = {
        "since_ms": public.since_ms,
        "keys": {key_id: key.hex() for key_id, key in public.keys.items()},
        "retired": {key_id: key.hex() for key_id, key in public.retired.items()},
    }
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".approval-keys-")
    try:
        with os.fdopen(descriptor, "w") as draft:
            os.fchmod(descriptor, 0o644)
            draft.write(json.dumps(content))
            draft.flush()
            os.fsync(descriptor)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink()
        raise


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
