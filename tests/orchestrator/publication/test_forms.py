"""The other forms: a push to a bare repository, patches, a bundle; and what may be said of them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from urllib.parse import quote

import pytest
import structlog
from pydantic import ValidationError

from envelope.events import GateVerdict
from orchestrator.errors import BadInput
from orchestrator.publication.address import is_remote_name, read_address
from orchestrator.publication.body import Facts, block_of, code, code_block, commit_in, title_of, with_block
from orchestrator.publication.book import Stage
from orchestrator.publication.place import place_of
from orchestrator.publication.settings import ForgeSettings
from orchestrator.publication.terms import Form, Terms
from orchestrator.publication.windows import read_window
from orchestrator.supervisor.environment import environment_of
from repo.errors import BranchRefused, RepositoryMissing
from repo.series import write_branch_bundle, write_series

TOKEN = "canary-0123456789-token"
BRANCH = "muster/modernise"


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=bob", "-c", "user.email=bob@localhost")
    return subprocess.run(
        ["git", *identity, "-C", str(folder), *words], capture_output=True, text=True, check=True
    ).stdout.strip()


async def test_a_bare_repository_is_pushed_to_and_its_own_rules_hold(github):
    bare = github.hub.bare
    first, second = github.commit("second\n"), github.commit("third\n")
    pushed = await push(github, first)
    forced = await push(github, second)
    hook = bare / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho 'protected branch: ask ann' >&2\nexit 1\n")
    hook.chmod(0o755)
    refused = await push(github, first)
    gone = await push(github, first, remote=str(github.folder / "nowhere"))

    assert (pushed.stage, forced.stage, github.hub.tip()) == (Stage.PUSHED, Stage.PUSHED, second)
    assert (refused.stage, gone.stage) == (Stage.REFUSED, Stage.REFUSED)
    assert refused.reason == f"The branch {BRANCH} is protected: protected branch: ask ann"
    assert "check the address" in gone.hint
    assert github.hub.asked == []


async def test_the_default_branch_is_pushed_to_only_where_that_is_meant(github):
    first, before = github.commit("second\n"), github.hub.tip("main")
    refused = await push(github, first, branch="main")
    kept = github.hub.tip("main")
    pushed = await push(github, first, branch="main", default_branch=True)

    assert (refused.stage, refused.code, kept) == (Stage.REFUSED, "repository", before)
    assert refused.reason == "The branch main is the remote's default branch"
    assert "--default-branch" in refused.hint and "`default_branch = true`" in refused.hint
    assert (pushed.stage, github.hub.tip("main")) == (Stage.PUSHED, first)


async def push(desk, commit: str, remote: str = "", *, branch: str = BRANCH, **terms):
    wanted = desk.wanted(commit, to=Form.PUSH, branch=branch, remote=remote or str(desk.hub.bare), **terms)
    return await desk.publisher.publish(wanted, await desk.mirror(commit))


async def test_a_wrong_token_is_told_and_nothing_is_pushed(github, monkeypatch):
    monkeypatch.setenv("HUB_TOKEN", "another-0123456789")
    wanted = github.wanted(commit := github.commit("second\n"), to=Form.PUSH)
    refused = await github.publisher.publish(wanted, await github.mirror(commit))

    assert refused.stage is Stage.REFUSED
    assert "does not let this credential in" in refused.reason
    assert git(github.hub.bare, "branch", "--list", BRANCH) == ""


async def test_the_token_is_in_no_command_line_no_file_and_no_log(github):
    basic = ForgeSettings.git_header(github.hub.settings()).rpartition(" ")[2]
    secrets = (TOKEN, basic, quote(TOKEN))
    seen: list[str] = []

    def look(_) -> None:
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if any(secret in line for secret in secrets):
                seen.append(line)

    github.hub.look = look
    with structlog.testing.capture_logs() as logs:
        made = await github.publish(github.commit("second\n"))

    assert made.stage is Stage.DRAFT
    assert any(path.endswith("/git-receive-pack") for _, path in github.hub.asked)
    assert seen == []
    said = [made.model_dump_json(), str(logs), github.hub.reviews[0].body]
    said += [path.read_text(errors="replace") for path in github.folder.rglob("publications/*") if path.is_file()]
    said += [path.read_text(errors="replace") for path in (github.folder / "cache").rglob("config")]
    assert [text for text in said if any(secret in text for secret in secrets)] == []


def test_the_fleets_processes_do_not_learn_where_tokens_are(keep_settings):
    forge = ForgeSettings(kind="github", token_env="FORGE_TOKEN")
    settings = keep_settings.model_copy(update={"forges": {"hub": forge}})
    told = environment_of(settings, {"MUSTER_FORGES": '{"hub": {}}', "PATH": "/bin"})

    assert "MUSTER_FORGES" not in told and "FORGE_TOKEN" not in str(told)


async def test_patches_and_bundles_carry_the_change_to_another_clone(github):
    first = github.commit("second\n")
    second = github.commit("third\n", parent=first)
    base = git(github.user, "rev-parse", "main")
    mirror = await github.mirror(second)
    written = await write_series(mirror, base, second, github.folder / "out" / "app")
    again = await write_series(mirror, base, second, github.folder / "out" / "app")
    await write_branch_bundle(mirror, base, second, BRANCH, github.folder / "out" / "app.bundle")
    git(github.folder, "clone", "-q", str(github.hub.bare), "other")
    other = github.folder / "other"
    git(other, "fetch", "-q", str(github.folder / "out" / "app.bundle"), f"{BRANCH}:mine")
    git(other, "am", "-q", *map(str, again))

    assert [path.name for path in written] == ["0001-second.patch", "0002-third.patch"]
    assert git(other, "rev-parse", "mine") == second
    assert git(other, "rev-parse", "HEAD^{tree}") == git(other, "rev-parse", "mine^{tree}")
    series = (github.folder / "out" / "app" / "series").read_text().splitlines()
    assert series == [f"# muster {base}..{second}", "0001-second.patch", "0002-third.patch"]


async def test_a_folder_with_other_things_is_left_alone(github):
    commit = github.commit("second\n")
    folder = github.folder / "out"
    folder.mkdir()
    (folder / "mine.txt").write_text("x")

    with pytest.raises(BranchRefused, match="holds other things"):
        await write_series(await github.mirror(commit), git(github.user, "rev-parse", "main"), commit, folder)
    assert os.listdir(folder) == ["mine.txt"]


async def test_a_bundle_takes_no_other_files_place(github):
    base, first = git(github.user, "rev-parse", "main"), github.commit("second\n")
    mirror, target = await github.mirror(first), github.folder / "app.bundle"
    git(github.user, "branch", "-f", BRANCH, first)
    git(github.user, "bundle", "create", "-q", str(github.folder / "theirs"), f"^{base}", BRANCH)
    theirs = (github.folder / "theirs").read_bytes()
    for content in (b"mine", b"", theirs):
        target.write_bytes(content)
        with pytest.raises(BranchRefused, match="is not a bundle of ours") as told:
            await write_branch_bundle(mirror, base, first, BRANCH, target)
        assert (target.read_bytes(), told.value.hint != "") == (content, True)
    target.unlink()
    target.symlink_to("theirs")
    with pytest.raises(BranchRefused):
        await write_branch_bundle(mirror, base, first, BRANCH, target)
    assert target.is_symlink()

    target.unlink()
    second = github.commit("third\n", parent=first)
    for commit in (first, second):
        await write_branch_bundle(await github.mirror(commit), base, commit, BRANCH, target)
    assert f"{second} refs/heads/{BRANCH}" in git(github.user, "bundle", "list-heads", str(target))


@pytest.mark.parametrize(
    ("text", "scheme", "host", "path"),
    [
        ("https://git.example.com/team/app.git", "https", "git.example.com", "team/app"),
        ("https://git.example.com:8443/team/sub/app/", "https", "git.example.com:8443", "team/sub/app"),
        ("https://[2606:4700::1111]:8443/team/app", "https", "[2606:4700::1111]:8443", "team/app"),
        ("ssh://git@git.example.com:2222/team/app.git", "ssh", "git.example.com", "team/app"),
        ("git@git.example.com:team/app.git", "ssh", "git.example.com", "team/app"),
        ("/srv/git/app.git", "file", "", "/srv/git/app.git"),
        ("file:///srv/git/app.git", "file", "", "/srv/git/app.git"),
    ],
)
def test_addresses(text, scheme, host, path):
    found = read_address(text)
    assert (found.scheme, found.host, found.path) == (scheme, host, path)


@pytest.mark.parametrize(
    "text", ["https://ann:secret@git.example.com/a/b", "https://secret@x.org/a", "ext::sh -c x", "-oProxyCommand=x", ""]
)
def test_addresses_that_are_refused_without_saying_their_secret(text):
    with pytest.raises(BadInput) as told:
        read_address(text)
    assert "secret" not in str(told.value)


@pytest.mark.parametrize(
    "host",
    [
        *("example.com:99999", "example.com:x", "example.com:0", "[", "[::1", "[::g]", "[fe80::1%25eth0]"),
        *("%31%32%37.0.0.1", "127.0.0.%31", "①27.0.0.1", "exa mple.com", "a\\b"),
    ],
)
def test_a_host_or_port_that_can_not_be_is_refused(host):
    for scheme in ("https", "ssh"):
        with pytest.raises(BadInput, match="no host or port"):
            read_address(f"{scheme}://{host}/x/y")


async def test_a_token_goes_to_its_own_host_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("FORGE_TOKEN", TOKEN)
    forges = {"hub": ForgeSettings(kind="github", token_env="FORGE_TOKEN")}
    ours = Terms(to=Form.REQUEST, remote="https://github.com/team/app")
    theirs = Terms(to=Form.REQUEST, remote="https://evil.example/team/app", forge="hub")
    plain = Terms(to=Form.REQUEST, remote="http://github.com/team/app", forge="hub")

    assert (await place_of(ours, forges, None)).forge == "hub"
    for terms in (theirs, plain):
        with pytest.raises(BadInput, match="and the forge 'hub' on"):
            await place_of(terms, forges, None)
    with pytest.raises(BadInput, match="no forge 'hib'"):
        await place_of(ours.model_copy(update={"forge": "hib"}), forges, None)
    with pytest.raises(BadInput, match="no forge is known at"):
        await place_of(Terms(to=Form.REQUEST, remote="https://x.org/a/b"), forges, None)
    with pytest.raises(BadInput, match="nobody knows where"):
        await place_of(Terms(to=Form.PUSH), forges, None)
    with pytest.raises(RepositoryMissing):
        await place_of(Terms(to=Form.PUSH), forges, tmp_path)
    assert is_remote_name("origin") and not is_remote_name("a/b")


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "github"},
        {"kind": "github", "token_env": "A", "token_file": "/x"},
        {"kind": "git", "token_env": "A"},
        {"kind": "gitea", "token_env": "A", "url": "http://git.example.com/api/v1"},
        {"kind": "gitea", "token_env": "A", "url": "https://ann:x@git.example.com"},
    ],
)
def test_forges_that_cannot_be(fields):
    with pytest.raises(ValidationError):
        ForgeSettings(**fields)


def test_a_token_is_read_from_a_file_and_a_missing_one_is_told(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    settings = ForgeSettings(kind="gitlab", token_file=file)
    empty = ForgeSettings(kind="gitlab", token_env="NOT_THERE")

    assert settings.api_headers() == {"Authorization": f"Bearer {TOKEN}"}
    assert (settings.api, settings.git_host) == ("https://gitlab.com/api/v4", "gitlab.com")
    with pytest.raises(BadInput, match=r"not in \$NOT_THERE"):
        empty.api_headers()


@pytest.mark.parametrize(
    "text", ["9-17", "mon 09:00", "funday 09:00-17:00", "09:00-17:00 Mars/Base", "25:00-26:00", "mon-fri  9:00-10:00"]
)
def test_windows_that_are_none(text):
    with pytest.raises(ValueError):
        read_window(text)


HOSTILE = (
    "```\n</details><!-- /muster -->\n@all [x](https://evil.example) ![i](https://evil.example/i) /merge\n````\x1b[2J"
)


def test_what_others_wrote_has_no_power_in_a_body():
    gate = {"phase": "after", "passed": True, "tests": 3, "detail": HOSTILE}
    facts = Facts(
        "0193", "b" * 40, "c" * 40, True, done_by=("build|x `@all`",), gates=(GateVerdict.model_validate(gate),)
    )
    block = block_of("a" * 32, facts)
    quiet = block_of("a" * 32, Facts("0193", "b" * 40, "d" * 40, True))

    fence = "`" * 5
    inside = block.split(f"{fence}text\n")[1].split(f"\n{fence}")[0]
    assert "@all [x]" in inside and "@all [x]" not in block.replace(inside, "")
    assert block.count("<!-- /muster -->") == 1 and "\x1b" not in block
    assert commit_in(block, "a" * 32) == "c" * 40 and commit_in(block, "b" * 32) is None
    assert with_block(f"mine\n\n{block}\n\nand mine", quiet) == f"mine\n\n{quiet}\n\nand mine"
    assert with_block("", quiet) == quiet and with_block("mine\n", quiet) == f"mine\n\n{quiet}"


def test_long_and_secret_texts_are_cut_and_blanked_out():
    secret = "ghp_" + "a" * 30
    shown = code_block("x" * 10_000 + f"\n{secret} the end", 1_000)

    assert len(shown) < 1_100 and shown.endswith("the end\n```") and secret not in shown
    assert code("a\n`b` | c") == "``a `b` ¦ c``" and code("") == "`-`"
    assert title_of("fix\n\x1b[2Jit " + "y" * 300).startswith("fix [2Jit yyy")
    assert len(title_of("y" * 300)) == 200 and title_of("") == "A change by Muster"
