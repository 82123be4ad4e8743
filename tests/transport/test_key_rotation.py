"""Keys change while processes run: nothing good is refused, nothing retired is taken for long."""

from __future__ import annotations

import json
import threading

import pytest

from envelope.codec import decode_request, encode
from envelope.errors import BadSignature
from envelope.messages import TaskRequest
from transport import keyring, rotation
from transport.errors import Misconfigured
from transport.keyring import LOOK_S, KeyFile

BODY = b"a body"


class Hand:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def path(tmp_path):
    keyring.load_or_create(tmp_path / "keyring.json")
    return tmp_path / "keyring.json"


def test_a_reader_learns_a_new_key_at_once(path):
    reader, sender = KeyFile(path, clock=Hand()), KeyFile(path)
    rotation.rotate(path)
    signed = KeyFile(path).sign(BODY)

    assert signed[0] == "k2"
    reader.verify(BODY, *signed)
    reader.verify(BODY, *sender.keys.sign(BODY))  # what is still under way


def test_a_sender_that_runs_signs_with_the_new_key_within_a_second(path):
    clock = Hand()
    sender = KeyFile(path, clock=clock)
    rotation.rotate(path)

    assert sender.sign(BODY)[0] == "k1"
    clock.now_s += LOOK_S
    assert sender.sign(BODY)[0] == "k2"


def test_a_reader_that_runs_refuses_a_retired_key_within_a_second(path):
    clock = Hand()
    old = KeyFile(path).sign(BODY)
    reader = KeyFile(path, clock=clock)
    rotation.rotate(path)
    rotation.retire(path, "k1")

    clock.now_s += LOOK_S

    with pytest.raises(BadSignature, match="'k1', a key that is not known"):
        reader.verify(BODY, *old)


def test_a_whole_message_goes_through_a_rotation(path):
    sender, reader = KeyFile(path), KeyFile(path, clock=Hand())
    request = TaskRequest(
        task_id="01890a5d-ac96-774b-bcce-b302099a8057", trace_id="4bf92f3577b34da6a3ce929d0e0e4736", sender="muster",
        recipient="build", agent="build", deadline_ms=1, created_at_ms=1,
    )  # fmt: skip
    before = encode(request, keyring=sender)
    rotation.rotate(path)
    after = encode(request, keyring=KeyFile(path))

    assert [decode_request(data, keyring=reader).signature.key_id for data in (before, after)] == ["k1", "k2"]


def test_a_forged_message_is_refused_however_often_the_file_changes(path):
    reader = KeyFile(path)
    for _ in range(3):
        rotation.rotate(path)
        with pytest.raises(BadSignature, match="does not fit"):
            reader.verify(BODY, "k1", b"\0" * 32)
        with pytest.raises(BadSignature, match="unsigned"):
            reader.verify(BODY, "", b"")


@pytest.mark.parametrize("harm", ["remove", "spoil", "open"])
def test_when_the_file_is_harmed_the_keys_that_were_read_stay_in_use(path, harm, capsys):
    clock = Hand()
    holder = KeyFile(path, clock=clock)
    signed = holder.sign(BODY)
    {
        "remove": path.unlink,
        "spoil": lambda: path.write_text("{"),
        "open": lambda: (path.write_text(path.read_text() + " "), path.chmod(0o644)),
    }[harm]()
    clock.now_s += LOOK_S

    assert holder.sign(BODY) == signed
    holder.verify(BODY, *signed)
    assert holder.keys.keys["k1"].hex() not in "".join(capsys.readouterr())


def test_a_key_that_was_added_signs_after_the_next_rotation_only(path):
    assert rotation.add(path) == ["k2", "a1"]
    assert keyring.read(path).current == "k1"
    assert rotation.following(keyring.read(path)) == "k2"
    assert rotation.rotate(path) == ["k2", "a2"]
    assert rotation.following(keyring.read(path)) is None
    assert rotation.rotate(path) == ["k3", "a3"]


def test_rotating_keeps_the_old_keys_and_the_mode(path):
    first = keyring.read(path).keys["k1"]
    rotation.rotate(path)

    after = keyring.read(path)
    assert (after.current, after.keys["k1"]) == ("k2", first)
    assert len({*after.keys.values()}) == 2
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["keyring.json"]


def test_the_key_that_signs_is_not_retired(path):
    with pytest.raises(Misconfigured, match="signs"):
        rotation.retire(path, "k1")
    with pytest.raises(Misconfigured, match="no key 'k9'") as refusal:
        rotation.retire(path, "k9")
    assert "k1" in refusal.value.hint


def test_who_rotates_at_once_loses_no_key(path):
    barrier, made = threading.Barrier(8), []

    def change():
        barrier.wait()
        made.extend(rotation.rotate(path))

    threads = [threading.Thread(target=change) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(made) == [f"k{number}" for number in range(2, 10)]
    assert set(keyring.read(path).keys) == {"k1", *made}


def test_a_keyring_behind_a_link_is_changed_where_it_is(path, tmp_path):
    link = tmp_path / "link.json"
    link.symlink_to(path)

    rotation.rotate(link)

    assert link.is_symlink()
    assert keyring.read(path).current == "k2"


def test_a_mounted_secret_is_used_as_it_is(tmp_path):
    """As Kubernetes mounts one: read-only for everybody, readable to the pod's group, and swapped behind a link."""
    for version, current in (("one", "k1"), ("two", "k2")):
        (tmp_path / version).mkdir()
        content = {"current": current, "keys": {"k1": "aa" * 32, "k2": "bb" * 32}}
        (tmp_path / version / "keyring.json").write_text(json.dumps(content))
        (tmp_path / version / "keyring.json").chmod(0o440)
        (tmp_path / version).chmod(0o550)
    (tmp_path / "data").symlink_to("one")
    clock = Hand()
    holder = KeyFile(tmp_path / "data" / "keyring.json", clock=clock)
    assert holder.sign(BODY)[0] == "k1"

    (tmp_path / "data").unlink()
    (tmp_path / "data").symlink_to("two")
    clock.now_s += LOOK_S

    assert holder.sign(BODY)[0] == "k2"


@pytest.mark.parametrize("mode", [0o444, 0o460, 0o640, 0o604])
def test_a_keyring_that_too_many_may_read_or_anyone_else_may_write_is_refused(path, mode):
    path.chmod(mode)

    with pytest.raises(Misconfigured, match="others may read"):
        keyring.load_or_create(path)


@pytest.mark.parametrize(
    "content",
    [
        {"current": "k2", "keys": {"k1": "aa" * 32}},
        {"current": "k1", "keys": {"k1": ""}},
        {"current": "", "keys": {"": "aa" * 32}},
        {"current": "k1", "keys": ["aa" * 32]},
    ],
)
def test_a_keyring_that_anybody_could_sign_with_or_nobody_is_refused(path, content):
    path.write_text(json.dumps(content))

    with pytest.raises(Misconfigured, match="not a keyring"):
        keyring.load_or_create(path)
