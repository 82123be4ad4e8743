"""A repository's settings folders: what is listed, what is read, and by what one is told from another."""

from __future__ import annotations

import pytest

from repo.errors import GitFailed, OutputTooLarge
from repo.project import contents, project_settings

FILES: dict[str, str | bytes] = {
    ".muster/agents/a.md": "A\nwith two lines",
    ".opencode/agent/ü.md": b"\x00binary\n",
    ".claude/settings.json": "",
    "muster.toml": "x = 1\n",
    "muster.toml.md": "not settings",
    "src/.muster/agents/deep.md": "not at the root",
}


async def test_settings_are_listed_and_read_from_a_commit_without_a_checkout(user):
    commit = user.commit(FILES)
    (user.root / ".muster/agents/a.md").write_text("changed later")

    settings = await project_settings(user.root / ".git", commit)

    assert [file.path for file in settings.files] == [
        ".claude/settings.json",
        ".muster/agents/a.md",
        ".opencode/agent/ü.md",
        "muster.toml",
    ]
    expected = {file.path: FILES[file.path] for file in settings.files}
    found = await contents(user.root / ".git", settings.files)
    assert found == {path: text if isinstance(text, bytes) else text.encode() for path, text in expected.items()}
    assert await contents(user.root / ".git", []) == {}


async def test_a_repository_without_settings_has_no_digest(user):
    settings = await project_settings(user.root / ".git", user.commit({"a.py": "", "docs/.muster/x": ""}))

    assert (settings.digest, settings.files) == ("", ())


async def test_the_digest_is_that_of_every_name_mode_and_byte_in_there(user):
    async def digest() -> str:
        return (await project_settings(user.root / ".git", "HEAD")).digest

    user.commit(FILES)
    seen = {await digest()}
    user.commit({"src/more.py": "no setting"})
    assert await digest() in seen
    changes = [
        lambda: (user.root / "muster.toml").write_text("x = 2\n"),
        lambda: (user.root / "muster.toml").chmod(0o755),
        lambda: (user.root / ".claude/hooks").mkdir() or (user.root / ".claude/hooks/run").write_text("id"),
        lambda: (user.root / ".claude/hooks/run").rename(user.root / ".claude/hooks/ran"),
        lambda: (user.root / ".muster/link").symlink_to("/etc"),
    ]
    for change in changes:
        change()
        user.commit({})
        seen.add(await digest())
    assert len(seen) == len(changes) + 1


@pytest.mark.parametrize("place", [".muster/agents/link.md", ".opencode"])
async def test_a_link_is_part_of_the_digest_and_never_followed(user, place):
    secret = user.root.parent / "outside"
    (secret / "agent").mkdir(parents=True)
    (secret / "agent" / "secret.md").write_text("secret")
    (user.root / place).parent.mkdir(parents=True, exist_ok=True)
    (user.root / place).symlink_to(secret)
    user.commit({})

    settings = await project_settings(user.root / ".git", "HEAD")

    assert settings.digest and settings.files == ()


async def test_too_many_files_and_an_unknown_commit_are_errors(user, monkeypatch):
    user.commit({f".claude/{number:05}": "" for number in range(100)})
    monkeypatch.setattr("repo.project.MAX_LISTING_BYTES", 1000)  # a million files take minutes to commit

    with pytest.raises(OutputTooLarge):
        await project_settings(user.root / ".git", "HEAD")
    with pytest.raises(GitFailed):
        await project_settings(user.root / ".git", "0" * 40)
