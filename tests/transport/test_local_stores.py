"""Keyrings in a file, names of keys: what needs no server."""

from __future__ import annotations

import threading

import pytest

from envelope.ids import new_trace_id
from transport import keyring
from transport.errors import Misconfigured
from transport.keys import CONTROL, CellKeys, cell_of


def test_a_keyring_is_made_once_and_is_its_owners_only(tmp_path):
    path = tmp_path / "state" / "keyring.json"
    made = keyring.load_or_create(path)

    assert keyring.load_or_create(path).keys == made.keys
    assert path.stat().st_mode & 0o777 == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["keyring.json"]


def test_processes_that_start_together_get_the_same_keyring(tmp_path):
    path, rings = tmp_path / "keyring.json", []
    barrier = threading.Barrier(8)

    def start():
        barrier.wait()
        rings.append(keyring.load_or_create(path))

    threads = [threading.Thread(target=start) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({ring.keys.keys["k1"] for ring in rings}) == 1


@pytest.mark.parametrize("content", ["", "[]", '{"current": "k1"}', '{"current": "k1", "keys": {"k1": "xyz"}}'])
def test_a_file_that_is_no_keyring_is_refused(tmp_path, content):
    path = tmp_path / "keyring.json"
    path.write_text(content)
    path.chmod(0o600)

    with pytest.raises(Misconfigured, match="not a keyring"):
        keyring.load_or_create(path)


def test_a_keyring_that_others_may_read_is_refused_with_the_remedy(tmp_path):
    path = tmp_path / "keyring.json"
    keyring.load_or_create(path)
    path.chmod(0o644)

    with pytest.raises(Misconfigured) as refusal:
        keyring.load_or_create(path)
    assert "chmod 600" in refusal.value.hint


def test_keys_are_shown_by_no_repr():
    ring = keyring.fresh()

    assert ring.keys["k1"].hex() not in repr(ring)
    assert "k1" in repr(ring)


def test_every_key_of_the_table_is_found_by_a_name_made_from_it():
    keys = CellKeys("main")
    for row in CONTROL:
        name = keys.name(row.pattern.replace("{", "").replace("}", ""))
        assert keys.key_of(name) is not None, row.pattern
    assert keys.key_of("{muster:main:0}:unheard-of") is None


def test_a_trace_always_lives_in_the_same_cell_and_traces_spread():
    traces = [new_trace_id() for _ in range(1000)]

    assert [cell_of(trace, 4) for trace in traces] == [cell_of(trace, 4) for trace in traces]
    assert all(150 < [cell_of(trace, 4) for trace in traces].count(cell) < 350 for cell in range(4))
    assert {cell_of(trace) for trace in traces} == {0}
