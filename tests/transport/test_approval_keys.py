"""Approval keys: who has the private file signs, who has the public one verifies, and both follow their files."""

from __future__ import annotations

import shutil

import pytest

from envelope.errors import BadSignature
from transport import approvals, keyring, rotation
from transport.approvals import PRIVATE, PUBLIC, UPGRADE_MS, Answer, SealKeys, Subject
from transport.errors import Misconfigured
from transport.keyring import LOOK_S

BODY = b"a body"
ASK = Subject("main", "0" * 32, "task", "ask_1")
NOON_MS = 1_700_000_000_000


@pytest.fixture
def path(tmp_path):
    """A fleet's keyring with approval keys beside it."""
    keyring.load_or_create(tmp_path / "people" / "keyring.json")
    approvals.create(tmp_path / "people" / "keyring.json", since_ms=NOON_MS)
    return tmp_path / "people" / "keyring.json"


@pytest.fixture
def worker(path, tmp_path):
    """What a worker's host was given."""
    (tmp_path / "worker").mkdir()
    shutil.copy(path.with_name(PUBLIC), tmp_path / "worker")
    return tmp_path / "worker" / "keyring.json"


def test_who_has_the_public_file_verifies_and_cannot_sign(path, worker):
    people, holder = approvals.at(path, approves=True), approvals.at(worker, approves=False)

    holder.verify(BODY, *people.sign(BODY))
    with pytest.raises(BadSignature):
        holder.verify(BODY + b".", *people.sign(BODY))
    with pytest.raises(Misconfigured, match="no approval key"):
        holder.sign(BODY)
    assert path.with_name(PRIVATE).stat().st_mode & 0o777 == 0o600
    assert path.with_name(PUBLIC).stat().st_mode & 0o777 == 0o644


def test_a_worker_reads_no_private_file_even_where_there_is_one(path):
    assert not approvals.at(path, approves=False).can_sign


def test_a_key_that_rotates_is_followed_and_a_retired_one_is_refused_but_on_record(path, worker):
    now_s = [0.0]
    people = approvals.at(path, approves=True, clock=lambda: now_s[0])
    holder = approvals.at(worker, approves=False, clock=lambda: now_s[0])
    old = people.signed(ASK, "once", "ann", "digest")
    answer = Answer("once", "ann", 0, **old)
    record = {**old, "sha256": approvals.sha256("once")}

    rotation.rotate(path)
    now_s[0] += LOOK_S
    signed = people.sign(BODY)
    assert signed[0] == "a2"
    shutil.copy(path.with_name(PUBLIC), worker.parent)
    holder.verify(BODY, *signed)  # at once: it looks when it does not know a key
    assert holder.fault(ASK, answer) == ""

    rotation.retire(path, "a1")
    shutil.copy(path.with_name(PUBLIC), worker.parent)
    now_s[0] += LOOK_S
    assert "not known here" in holder.fault(ASK, answer)
    assert holder.fault_of_record(ASK, "ann", record) == ""
    assert holder.fault_of_record(ASK, "bob", record) == "the signature does not fit the content"
    assert holder.since_ms == NOON_MS


@pytest.mark.parametrize(
    "other", [Subject("other", *("0" * 32, "task", "ask_1")), Subject("main", "1" * 32, "task", "a")]
)
def test_an_answer_is_to_one_ask(other):
    keys = approvals.fresh()
    answer = Answer("once", "ann", 0, **keys.signed(ASK, "once", "ann", "digest"))

    assert keys.fault(ASK, answer) == ""
    assert keys.fault(other, answer) == "the signature does not fit the content"


def test_a_worker_that_has_no_public_file_takes_what_comes_until_it_gets_one(path, worker):
    worker.with_name(PUBLIC).rename(worker.with_name("later"))
    now_s = [0.0]
    holder = approvals.at(worker, approves=False, clock=lambda: now_s[0])
    forged = Answer("once", "alice", 0)
    assert (holder.are_known, holder.fault(ASK, forged)) == (False, "")

    worker.with_name("later").rename(worker.with_name(PUBLIC))
    now_s[0] += LOOK_S
    assert holder.fault(ASK, forged) == "nobody has signed it"

    worker.with_name(PUBLIC).unlink()  # taking the file away brings no forgery back
    now_s[0] += LOOK_S
    assert holder.fault(ASK, forged) == "nobody has signed it"


def test_what_the_keyring_signed_is_taken_for_a_day_and_no_longer(path):
    old, people = keyring.KeyFile(path), approvals.at(path, approves=True)
    now_ms = [NOON_MS]
    keys = SealKeys(people, old, lambda: now_ms[0])

    assert keys.sign(BODY)[0] == "a1"
    keys.verify(BODY, *old.sign(BODY))
    now_ms[0] += UPGRADE_MS
    keys.verify(BODY, *keys.sign(BODY))
    with pytest.raises(BadSignature):
        keys.verify(BODY, *old.sign(BODY))


@pytest.mark.parametrize(("mode", "text"), [(0o666, None), (0o644, "{"), (0o644, '{"keys": {"a1": "00"}}')])
def test_public_keys_that_others_may_write_or_that_are_none_are_refused(worker, mode, text):
    if text is not None:
        worker.with_name(PUBLIC).write_text(text)
    worker.with_name(PUBLIC).chmod(mode)

    with pytest.raises(Misconfigured, match="public keys"):
        approvals.at(worker, approves=False)


def test_a_host_that_was_given_the_public_file_makes_no_keys(worker):
    keyring.load_or_create(worker)

    assert rotation.add(worker) == ["k2"]
    assert not worker.with_name(PRIVATE).exists()
