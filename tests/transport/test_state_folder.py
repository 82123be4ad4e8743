"""What stands on a machine is for one user: the folder, its locks, and the sockets that others could squat."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from orchestrator.settings import load_settings
from transport.embedded import socket_path
from transport.errors import Misconfigured, Unreachable
from transport.keyring import load_or_create
from transport.rotation import retire, rotate
from transport.settings import FleetSettings, connect
from transport.state_folder import held, private_folder, require_private

NOBODY = 65534


@pytest.fixture
def plain_umask() -> Iterator[None]:
    """That of a person who wants everybody to read everything."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o7777


def test_what_is_missing_is_made_for_this_user_alone(tmp_path: Path, plain_umask: None):
    made = private_folder(tmp_path / "state" / "audit")

    assert [mode_of(each) for each in (made.parent, made)] == [0o700, 0o700]


@pytest.mark.parametrize("content", [[], [".bashrc", "lost+found"], ["keyring.json", "logs"]])
def test_a_wider_folder_of_ours_is_closed(tmp_path: Path, content: list[str]):
    folder = tmp_path / "state"
    folder.mkdir()
    for name in content:
        (folder / name).touch()
    folder.chmod(0o2775)

    require_private(folder)

    assert mode_of(folder) == 0o700


def of_somebody_else(folder: Path) -> None:
    folder.mkdir(mode=0o700)
    os.chown(folder, NOBODY, NOBODY)


def a_link(folder: Path) -> None:
    folder.symlink_to(private_folder(folder.with_name("real")))


def used_for_more(folder: Path) -> None:
    (folder / "public_html").mkdir(parents=True)
    folder.chmod(0o755)


def everybodys(folder: Path) -> None:
    folder.mkdir()
    folder.chmod(0o1777)


@pytest.mark.parametrize(
    ("make", "message", "hint"),
    [
        (of_somebody_else, "belongs to another user", "MUSTER_STATE_DIR"),
        (a_link, "is a link", "real"),
        (used_for_more, "others may look into", "chmod 700"),
        (everybodys, "others may look into", "MUSTER_STATE_DIR"),
    ],
)
async def test_any_other_is_refused_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None], message: str, hint: str
):
    folder = tmp_path / "state"
    make(folder)
    before = folder.lstat()
    monkeypatch.setenv("MUSTER_STATE_DIR", str(folder))

    for use in (load_settings, lambda: require_private(folder)):
        with pytest.raises(Misconfigured, match=message) as refused:
            use()
        assert hint in refused.value.hint
    with pytest.raises(Misconfigured, match=message):
        await connect(FleetSettings())

    assert (folder.lstat().st_mode, folder.lstat().st_uid) == (before.st_mode, before.st_uid)


@pytest.mark.parametrize("make", [of_somebody_else, a_link])
def test_no_socket_is_looked_for_in_a_folder_that_somebody_else_has_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[Path], None]
):
    """In a shared /tmp its name can be guessed: who listens there would be told goals, and hand out results."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    make(tmp_path / "muster")

    with pytest.raises(Misconfigured):
        socket_path(tmp_path / "state")


@pytest.fixture
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("transport.state_folder.LOCK_TIMEOUT_S", 0.1)


def test_a_lock_that_somebody_keeps_is_waited_for_no_longer_than_said(tmp_path: Path, little_patience: None):
    lock = tmp_path / "new" / "lock"
    with held(lock), pytest.raises(Unreachable, match="nothing was changed") as late, held(lock):
        raise AssertionError("two have it")
    with held(lock):
        pass

    assert str(lock) in late.value.hint


def test_a_lock_of_an_earlier_release_is_closed_to_others(tmp_path: Path):
    lock = tmp_path / "lock"
    lock.touch()
    lock.chmod(0o644)

    with held(lock):
        assert mode_of(lock) == 0o600


def test_a_key_is_retired_or_the_caller_hears_why_not(tmp_path: Path, little_patience: None):
    """Whoever revokes must not wait for ever for who keeps the lock. (Tokens have none: they are in Redis.)"""
    keyring = tmp_path / "keyring.json"
    load_or_create(keyring)
    rotate(keyring)
    keeper = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(keeper, fcntl.LOCK_EX)

    with pytest.raises(Unreachable, match="another process has held"):
        retire(keyring, "k1")
    os.close(keeper)
    retire(keyring, "k1")
