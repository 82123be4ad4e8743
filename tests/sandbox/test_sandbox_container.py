"""What the engine is told, and the errors' tree: no engine needed."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from sandbox import errors
from sandbox.base import MIB, Limits, SandboxSpec
from sandbox.container import Opening, Place, SetupRoot, container_config
from sandbox.errors import SandboxError
from sandbox.toolserver import SOURCE, install_server
from sandbox.workspace import Workspace, create_workspace, remove_workspace

SPEC = SandboxSpec("image", labels={"task": "t"}, limits=Limits(memory_bytes=64 * MIB, cpus=0.5, pids=9))
OPENING = Opening("muster-1", SPEC, Workspace(Path("/s/sandboxes/1"), Path("/c")), Path("/s/server.py"), "me", 1234)


def host_config(opening: Opening) -> dict[str, object]:
    return container_config(opening)["HostConfig"]


def test_every_limit_reaches_the_engine():
    config = host_config(OPENING)

    assert (config["Memory"], config["MemorySwap"]) == (64 * MIB, 64 * MIB)
    assert (config["NanoCpus"], config["PidsLimit"]) == (500_000_000, 9)
    assert {"Name": "core", "Soft": 0, "Hard": 0} in config["Ulimits"]  # pyright: ignore[reportOperatorIssue]
    inodes = {place: re.findall("nr_inodes=([0-9]+)", options) for place, options in config["Tmpfs"].items()}  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType, reportUnknownArgumentType, reportUnknownMemberType]
    assert inodes == {"/tmp": ["100000"], "/home/agent": ["100000"], "/dev/shm": ["10000"]}


def test_nothing_is_shared_that_was_not_asked_for():
    targets = [mount["Target"] for mount in host_config(OPENING)["Mounts"]]  # pyright: ignore[reportGeneralTypeIssues]
    assert targets == ["/workspace", "/run/muster-toolserver.py"]

    with_egress = replace(OPENING, spec=replace(SPEC, egress=frozenset({"h"})))
    mounts = host_config(with_egress)["Mounts"]
    assert [m["Target"] for m in mounts if not m["ReadOnly"]] == ["/workspace"]  # pyright: ignore[reportGeneralTypeIssues]
    assert "PortBindings" not in host_config(with_egress)


def test_only_setup_may_write_the_root():
    assert host_config(OPENING)["ReadonlyRootfs"] is True
    root = SetupRoot("muster-1", (Place("/opt/venv", 0, 0, 0o755, 5, 6),), max_bytes=MIB, max_files=7, disk=None)
    commands, taker = (host_config(replace(OPENING, root=each)) for each in (root, replace(root, is_taker=True)))
    assert (commands["ReadonlyRootfs"], taker["ReadonlyRootfs"]) == (True, False)
    seen = [[mount["Target"] for mount in each["Mounts"]] for each in (commands, taker)]  # pyright: ignore[reportGeneralTypeIssues]
    server = "/run/muster-toolserver.py"
    assert seen == [["/workspace", server, "/opt/venv"], [server, "/run/muster-root/0"]]
    assert commands["Memory"] == 64 * MIB + MIB + 5 + 13 * 1024


def test_labels_of_the_caller_cannot_replace_ours():
    forged = replace(OPENING, spec=replace(SPEC, labels={"owner": "other", "expires_at": "9", "task": "t"}))
    assert forged.labels == {"muster.owner": "me", "muster.expires_at": "1234", "muster.task": "t"}


@pytest.mark.parametrize("name", ["a,b", "a:b", "a\\b"])
def test_a_folder_that_an_overlay_cannot_name_is_refused(tmp_path: Path, name: str):
    (tmp_path / name).mkdir()
    with pytest.raises(SandboxError, match="overlays refuse"):
        create_workspace(tmp_path / "state", "id", tmp_path / name)
    with pytest.raises(SandboxError, match="not there"):
        create_workspace(tmp_path / "state", "id", tmp_path / "missing")


def test_removing_a_workspace_follows_no_link(tmp_path: Path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").write_text("keep")
    workspace = create_workspace(tmp_path / "state", "id", None)
    (workspace.upper / "link").symlink_to(tmp_path / "precious")

    remove_workspace(workspace.folder)
    remove_workspace(workspace.folder)

    assert not workspace.folder.exists()
    assert (tmp_path / "precious" / "file").read_text() == "keep"


def test_the_tool_server_needs_the_standard_library_alone():
    tree = ast.parse(SOURCE.read_text())
    named = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    named |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert named <= sys.stdlib_module_names | {"collections.abc"}


def test_each_sandbox_has_a_tool_server_file_of_its_own_that_all_may_read(tmp_path: Path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    first, second = install_server(tmp_path / "one"), install_server(tmp_path / "two")
    assert not first.samefile(second)
    assert first.stat().st_mode & 0o777 == 0o444
    assert first.read_bytes() == SOURCE.read_bytes()


def test_every_error_stands_in_the_tree_that_the_module_draws():
    classes = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, SandboxError)]

    assert errors.__doc__ is not None
    assert all(each.__name__ in errors.__doc__ for each in classes)
    assert SandboxError("what", hint="try").hint == "try"
