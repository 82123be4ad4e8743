"""Whatever is wrong: one sentence, a hint, and the exit code that says whose turn it is."""

from __future__ import annotations

import json
import os
import re
import subprocess

import pytest
import redis

from envelope.errors import ExitCode
from transport import approvals, keyring

pytestmark = pytest.mark.acceptance

BATCH = """\
name = "modernise"
[[repositories]]
path = "project"
[shards]
glob = "*.py"
[[steps]]
recipe = ["ruff check --fix {path}"]
"""

USAGE, INFRASTRUCTURE = ExitCode.USAGE, ExitCode.INFRASTRUCTURE


def _expect(done, exit_code, sentence, hint):
    lines = done.stderr.splitlines()
    assert done.exit_code == exit_code, done.stderr
    assert sentence in lines[-2], done.stderr
    assert lines[-2].startswith("error: ")
    assert lines[-1].startswith("hint: ")
    assert hint in lines[-1]
    assert done.stdout == ""
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "sentence", "hint"),
    [
        (("rnu", "x"), "no such command 'rnu'", "run"),
        (("run", "x", "--gaet", "y"), "no such option: --gaet", "--gate"),
        (("run",), "missing argument 'GOAL'", "muster run --help"),
        (("run", "  "), "the goal is empty", "muster run"),
        (("run", "x", "--deadline", "soon"), "'soon' is not a length of time", "muster run --help"),
        (("run", "x", "--deadline", "0s"), "at least one second", "muster run --help"),
        (("run", "x", "--deadline", "31d"), "30 days at most", "muster run --help"),
        (("run", "x", "--budget", "-1"), "--budget", "muster run --help"),
        (("run", "x", "--allow", "everything"), "'everything' is not a grant", "tool:pattern"),
        (("run", "x", "--file", "nothing.log"), "there is no file nothing.log", "--file"),
        (("run", "x", "--resume", "4f2a", "--branch", "b"), "--branch does not go with --resume", "leave it out"),
        (("run", "x", "--resume", "4f2a", "--key", "k"), "--key does not go with --resume", "leave it out"),
        (
            ("run", "x", "--resume", "4f2a", "--agent", "a"),
            "--agent does not go with --resume",
            "goes on with its agent",
        ),
        (("run", "x", "--repo", "nowhere"), "there is no folder nowhere", "muster --help"),
        (("run", "x", "--repo", "."), "is not in a git repository", "git init"),
        (("batch", "run", "nothing.toml"), "nothing.toml cannot be read", "batch file"),
        (("batch", "rum", "x.toml"), "no such command 'rum'", "run"),
        (("task", "show", "not an id"), "'not an id' is not a task's id", "muster task list"),
        (
            ("run", "/review", "--task", "4f2a"),
            "--task is for /undo, /redo, /compact, /share",
            "muster task prompt 4f2a",
        ),
        (("task", "diff", "abcd1234"), "no task ends in 'abcd1234'", "muster task list"),
        (("agents", "show", "build", "--capability", "read"), "--capability goes with --tools", "--help"),
        (("token", "create", "a", "--role", "boss"), "invalid value for '--role': 'boss' is not one of", "--help"),
        (("schema", "requst"), "there is no schema 'requst'", "did you mean 'request'?"),
    ],
)
def test_wrong_words_are_told_in_one_sentence(desk, words, sentence, hint):
    _expect(desk.muster(*words), USAGE, sentence, hint)


@pytest.mark.parametrize(
    ("change", "sentence", "hint"),
    [
        (("[shards]", 'nmae = "x"\n[shards]'), "unknown key 'repositories[0].nmae'", "did you mean 'name'?"),
        (("[shards]", "[limit]\n[shards]"), "unknown key 'limit'", "did you mean 'limits'?"),
        (('glob = "*.py"', 'glob = "*.py"\nwhole = true'), "say one of `glob`, `directories`", ""),
        (("[[steps]]", "[[steps"), "is not TOML", ""),
        (('path = "project"', 'path = "missing"'), "missing", ""),
    ],
)
def test_a_wrong_batch_file_is_told_with_its_field(desk, change, sentence, hint):
    desk.repository("project", {"a.py": "x = 1\n"})
    (desk.home / "batch.toml").write_text(BATCH.replace(*change))
    done = desk.muster("batch", "run", "batch.toml")
    assert done.exit_code == USAGE, done.stderr
    assert sentence in done.stderr
    assert hint in done.stderr
    assert done.stderr.startswith("error: ")


@pytest.mark.parametrize("words", [("run", "tidy up", "--repo", "project"), ("batch", "run", "batch.toml")])
def test_a_dirty_work_tree_is_refused(desk, words):
    (desk.repository("project", {"a.py": "x = 1\n"}) / "a.py").write_text("x = 2\n")
    (desk.home / "batch.toml").write_text(BATCH)
    _expect(desk.muster(*words), USAGE, "changes that are not committed: a.py", "--allow-dirty")


@pytest.mark.parametrize("words", [("run", "x", "--repo", "project/part"), ("batch", "run", "batch.toml")])
def test_a_folder_below_a_repositorys_root_is_refused(desk, words):
    project = desk.repository("project", {"part/a.py": "x = 1\n"})
    (desk.home / "batch.toml").write_text(BATCH.replace('path = "project"', 'path = "project/part"'))
    _expect(desk.muster(*words), USAGE, f"project/part is a folder of the repository {project}", f"itself, {project}")


@pytest.mark.parametrize(
    ("branch", "sentence", "hint"),
    [
        ("main", "the branch main is checked out", "publish to another branch"),
        ("x..y", "'x..y' is not a valid branch name", "name it like"),
        ("other", "the branch other holds work", "choose another branch name"),
        ("other/below", "there is a branch other", "choose another branch name"),
    ],
)
def test_a_branch_that_cannot_be_set_in_the_end_is_refused_before_anything_is_started(desk, branch, sentence, hint):
    project = desk.repository("project", {"a.py": "x = 1\n"})
    desk.git("checkout", "-q", "-b", "other", repository=project)
    desk.git("commit", "-q", "--allow-empty", "-m", "theirs", repository=project)
    desk.git("checkout", "-q", "main", repository=project)
    _expect(desk.muster("run", "tidy up", "--repo", "project", "--branch", branch), USAGE, sentence, hint)


def test_the_default_branch_of_a_bare_repository_is_not_set(desk):
    project = desk.repository("project", {"a.py": "x = 1\n"})
    desk.git("clone", "-q", "--bare", ".", "../bare.git", repository=project)
    done = desk.muster("run", "tidy up", "--repo", "bare.git", "--branch", "main")
    _expect(done, USAGE, "the branch main is the default branch of the bare repository", "--default-branch")


@pytest.mark.parametrize(
    ("settings", "exit_code", "sentence", "hint"),
    [
        ({"MUSTER_REDIS_URL": "redis://127.0.0.1:1/0"}, INFRASTRUCTURE, "127.0.0.1:1", ""),
        ({"MUSTER_DEADLINE_MS": "soon"}, USAGE, "deadline_ms", "MUSTER_DEADLINE_MS"),
        ({"MUSTER_FLEET": "No Such Name!"}, USAGE, "fleet", "MUSTER_FLEET"),
    ],
)
def test_wrong_settings_are_told_with_their_name(desk, settings, exit_code, sentence, hint):
    project = desk.repository("project", {"a.py": "x = 1\n"})
    _expect(desk.muster("run", "tidy up", "--repo", str(project), env=settings), exit_code, sentence, hint)


@pytest.mark.parametrize(
    "words", [("budget", "raise", "x", "--to", "5"), ("task", "revert", "x", "--to", "1"), ("task", "turns", "x")]
)
def test_what_is_no_id_is_told_before_anything_is_started_or_asked(desk, words):
    done = desk.muster(*words, env={"MUSTER_REDIS_URL": "redis://127.0.0.1:1/0"})
    _expect(done, USAGE, "'x' is not a task's id", "muster task list")


@pytest.mark.redis
@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("ask", "answer", "ask_99999999", "once"), "no open ask has an id that ends in 'ask_99999999'"),
        (("task", "cancel", "abcd1234"), "no task ends in 'abcd1234'"),
        (("batch", "attach", "abcd1234"), "no task ends in 'abcd1234'"),
    ],
)
def test_what_is_not_there_is_told_without_starting_a_fleet(desk, words, sentence):
    done = desk.muster(*words)
    _expect(done, USAGE, sentence, "see ")
    assert len(done.stderr.splitlines()) == 2


def test_an_unknown_setting_in_the_users_file_is_told_with_a_near_miss(desk):
    file = desk.home / "config.toml"
    file.write_text('modle = "x"\n')
    done = desk.muster("config", "show", env={"MUSTER_CONFIG": str(file)})
    _expect(done, USAGE, "unknown setting 'modle'", "did you mean 'model'?")


@pytest.mark.redis
def test_a_redis_that_evicts_is_refused(desk, evicting_redis):
    done = desk.muster("task", "list", env={"MUSTER_REDIS_URL": evicting_redis})
    _expect(done, USAGE, "maxmemory-policy is allkeys-lru", "noeviction")


@pytest.mark.redis
def test_a_redis_without_workers_is_told_after_five_seconds(desk, plain_redis):
    project = desk.repository("project", {"a.py": "x = 1\n"})
    done = desk.muster("run", "tidy up", "--repo", str(project), env={"MUSTER_REDIS_URL": plain_redis})
    _expect(done, INFRASTRUCTURE, "no live worker serves", "muster-worker build")


@pytest.mark.redis
def test_up_and_down_refuse_a_redis_that_others_look_after(desk):
    for word in ("up", "down"):
        done = desk.muster(word, env={"MUSTER_REDIS_URL": "redis://127.0.0.1:1/0"})
        _expect(done, USAGE, "others look after", "unset it")


@pytest.mark.parametrize("engine", ["unix:///nonexistent/docker.sock", "tcp://127.0.0.1:1"])
@pytest.mark.redis
def test_no_docker_is_told_by_the_command_that_needed_it(desk, engine):
    project = desk.repository("project", {"a.py": "x = 1\n"})
    done = desk.muster("run", "tidy up", "--repo", str(project), env={"DOCKER_HOST": engine})
    _expect(done, INFRASTRUCTURE, "the Docker engine cannot be reached", "muster doctor")


@pytest.mark.docker
@pytest.mark.redis
def test_a_missing_image_is_told_with_the_command_that_builds_it(desk):
    done = desk.muster("up", "--detach", env={"MUSTER_IMAGE": "muster-none:none"})
    _expect(done, INFRASTRUCTURE, "muster-none:none", "muster sandbox build")


WRONG_DRIVER = {"MUSTER_SANDBOX_DRIVER": "dockr"}


@pytest.mark.parametrize("words", [("sandbox", "check"), ("sandbox", "list"), ("sandbox", "prune")])
def test_a_wrong_setting_of_the_workers_is_named(desk, words: tuple[str, ...]):
    _expect(desk.muster(*words, env=WRONG_DRIVER), USAGE, "MUSTER_SANDBOX_DRIVER is not usable", "below [workers]")


def test_doctor_asks_for_the_driver_that_the_workers_have(desk):
    done = desk.muster("doctor", "--json", env=WRONG_DRIVER)
    checks = {check["part"]: check for check in map(json.loads, done.stdout.splitlines())}

    assert done.exit_code == INFRASTRUCTURE
    assert "sandbox image" not in checks and "Docker" not in checks
    assert checks["sandboxes"]["health"] == "fails" and "'bubblewrap'" in checks["sandboxes"]["found"]
    assert checks["sandboxes"]["mend"].startswith(
        "correct or unset MUSTER_SANDBOX_DRIVER, or `sandbox_driver` below [w"
    )


@pytest.mark.docker
def test_doctor_warns_of_an_engine_whose_own_filter_is_too_old(desk):
    version = subprocess.check_output(["docker", "version", "--format", "{{.Server.Version}}"], text=True)
    done = desk.muster("doctor", "--json")
    (check,) = [check for check in map(json.loads, done.stdout.splitlines()) if check["part"] == "Docker"]

    is_old = tuple(map(int, re.findall(r"\d+", version)[:3])) < (29, 4, 3)
    assert check["health"] == ("note" if is_old else "works")
    assert ("CVE-2026-31431" in check["found"]) is is_old


def test_doctor_tells_who_can_give_answers_for_people(desk, tmp_path):
    path = tmp_path / "keys" / "keyring.json"

    def told() -> tuple[str, str]:
        done = desk.muster("doctor", "--json", env={"MUSTER_KEYRING": f"{path}"})
        by_part = {check["part"]: check for check in map(json.loads, done.stdout.splitlines())}
        return by_part["people's answers"]["health"], by_part["people's answers"]["found"]

    assert told() == ("note", "will be signed: the first start makes the keys")
    keyring.load_or_create(path)
    approvals.create(path, since_ms=1)
    assert told() == ("works", "are signed; workers verify them with approval-keys.pub.json, beside their keyring")
    path.with_name(approvals.PRIVATE).unlink()
    assert told() == ("note", "are verified here, and given elsewhere: this host has no private key")
    path.with_name(approvals.PUBLIC).unlink()
    assert told() == ("note", "are not signed: a worker's Redis password can give them")


@pytest.mark.redis
def test_doctor_warns_of_a_redis_that_is_nearly_full(desk, plain_redis):
    with redis.Redis.from_url(plain_redis) as client:
        for at in range(200):  # small ones, for a buffer that one was sent through counts as memory for a while
            client.set(f"filler{at}", b"x" * 100_000)
        client.config_set("maxmemory", int(client.info("memory")["used_memory"] / 0.95))

    done = desk.muster("doctor", "--json", env={"MUSTER_REDIS_URL": plain_redis})
    told = {check["part"]: check for check in map(json.loads, done.stdout.splitlines())}["Redis"]

    assert told["health"] == "note"
    assert "its memory is 95 % full" in told["found"] and "80 %" in told["found"]
    assert "docs/runbooks/MusterRedisMemoryFull.md" in told["mend"]


def test_doctor_says_once_that_redis_does_not_answer(desk):
    done = desk.muster("doctor", "--json", env={"MUSTER_REDIS_URL": "redis://127.0.0.1:1/0"})
    checks = {check["part"]: check for check in map(json.loads, done.stdout.splitlines())}

    assert done.exit_code == INFRASTRUCTURE
    assert (checks["Redis"]["health"], checks["fleet"]["health"]) == ("fails", "note")
    assert (checks["fleet"]["found"], checks["fleet"]["mend"]) == ("not known: see Redis", "")


def test_a_reader_who_has_gone_and_a_full_disk_are_told_apart(desk):
    """By a shell's own code for the one, for nothing is known of what goes on then, and by a sentence for the other."""
    read, write = os.pipe()
    os.close(read)
    gone = desk.shell("schema request", stdout=write)
    os.close(write)
    full, closed = desk.shell("schema request >/dev/full"), desk.shell("schema request <&- >&-")

    assert (gone.exit_code, gone.stderr) == (141, "")
    _expect(full, INFRASTRUCTURE, "no space left on the disk", "df")
    assert (closed.exit_code, closed.stderr) == (0, "")


def test_a_state_folder_that_is_a_file_is_one_sentence_without_verbose(desk):
    (desk.home / "file").write_text("")
    done = desk.muster("task", "list", env={"MUSTER_STATE_DIR": str(desk.home / "file")})
    _expect(done, USAGE, "error: ", "hint: ")
    loud = desk.muster("task", "list", "--verbose", env={"MUSTER_STATE_DIR": str(desk.home / "file")})
    assert "Traceback" in loud.stderr
