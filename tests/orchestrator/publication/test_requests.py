"""Requests for review on three kinds of forges, with git and HTTP as they are."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from envelope.ids import digest_of
from orchestrator.publication.book import Stage
from orchestrator.publication.telling import close, comment

BRANCH = "muster/modernise"


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, check=True).stdout.strip()


async def test_a_request_is_made_once_as_a_draft_and_then_brought_up_to_date(desk):
    first, second = desk.commit("second\n"), desk.commit("third\n")
    made = await desk.publish(first)
    again = await desk.publish(first)
    [review] = desk.hub.reviews
    review.body = f"Please read this.\n\n{review.body}\n\nThank you."
    newer = await desk.publish(second)

    assert (made.stage, again.stage, newer.stage) == (Stage.DRAFT,) * 3
    assert (made.number, newer.number, desk.hub.created) == (1, 1, 1)
    assert made.url == f"{desk.hub.url}/team/app/1"
    assert review.draft and review.title.endswith("Modernise")
    assert (review.head, review.base) == (BRANCH, "main")
    assert desk.hub.tip() == second
    assert second in review.body and first not in review.body
    assert review.body.startswith("Please read this.") and review.body.endswith("Thank you.")


async def test_a_request_can_be_ready_at_once_and_go_into_another_branch(github):
    made = await github.publish(github.commit("second\n"), draft=False, into="main")

    [review] = github.hub.reviews
    assert (made.stage, review.draft, review.title) == (Stage.OPEN, False, "Modernise")


async def test_what_a_person_pushed_meanwhile_is_never_overwritten(github):
    first, second = github.commit("second\n"), github.commit("third\n")
    await github.publish(first)
    theirs = github.push_as_ann("by ann\n", onto=first)
    same = await github.publish(first)
    refused = await github.publish(second)

    assert same.stage is Stage.DRAFT, "there is nothing new of ours, and what they did with it is theirs"
    assert (refused.stage, github.hub.tip()) == (Stage.REFUSED, theirs)
    assert "was changed by somebody else" in refused.reason and refused.hint
    assert len(github.hub.reviews) == 1


async def test_a_branch_that_somebody_else_made_is_not_taken(github):
    theirs = github.push_as_ann("by ann\n", onto="main")
    refused = await github.publish(github.commit("second\n"))

    assert (refused.stage, github.hub.tip(), github.hub.reviews) == (Stage.REFUSED, theirs, [])


@pytest.mark.parametrize(
    "written",
    [
        "{url}/",
        "{url}.git/",
        "{bare}",
        "{bare}.git",
        "{bare}//",
        "{upper}",
        "{path}/./app",
        "{path}/x/../app",
        "{encoded}",
    ],
)
async def test_a_branch_is_anothers_however_the_address_of_its_repository_is_written(github, written):
    desk, first = github, github.commit("second\n")
    mine = await desk.publisher.publish(desk.wanted(first).model_copy(update={"tenant": "a"}), await desk.mirror(first))
    bare = desk.hub.remote.removesuffix(".git")
    names = {"url": desk.hub.remote, "bare": bare, "upper": bare.replace("/team/app", "/Team/APP")}
    names |= {"path": bare.removesuffix("/app"), "encoded": bare.replace("/app", "/%61pp")}
    second = desk.commit("third\n", first)
    wanted = desk.wanted(second, remote=written.format(**names)).model_copy(update={"tenant": "b", "forge": "hub"})
    theirs = await desk.publisher.publish(wanted, await desk.mirror(second))

    assert (mine.stage, theirs.stage, desk.hub.tip()) == (Stage.DRAFT, Stage.REFUSED, first)
    assert "of another tenant" in theirs.reason


async def test_what_one_tenant_publishes_keeps_no_other_waiting(github):
    """As while a push of theirs takes half an hour."""
    desk, commit = github, github.commit("second\n")
    theirs = desk.wanted(commit, branch="muster/theirs").model_copy(update={"tenant": "a"})
    ours = desk.wanted(commit).model_copy(update={"tenant": "b"})
    async with desk.book.at_work(theirs), asyncio.timeout(60):
        assert (await desk.publisher.publish(ours, await desk.mirror(commit))).stage is Stage.DRAFT


async def test_what_a_release_before_has_published_is_gone_on_with(github):
    """It knew a repository by its address as it was written."""
    first, second = github.commit("second\n"), github.commit("third\n")
    wanted = github.wanted(first)
    old = digest_of("publication", wanted.remote, wanted.branch)[:32]
    before = wanted.model_copy(update={"key": old, "body": wanted.body.replace(wanted.key, old)})
    await github.publisher.publish(before, await github.mirror(first))
    newer = await github.publish(second)

    assert (newer.key, newer.stage, newer.number, github.hub.created) == (old, Stage.DRAFT, 1, 1)
    assert github.hub.tip() == second


async def test_whoever_forgot_everything_finds_it_at_the_forge(github):
    await github.publish(github.commit("second\n"))
    [file] = (github.folder / "publications").glob("*.json")
    file.write_text("{")
    second = github.commit("third\n")
    newer = await github.publish(second)

    assert (newer.stage, newer.number, github.hub.created) == (Stage.DRAFT, 1, 1)
    assert github.hub.tip() == second, "the request's own mark says that the older commit was ours"


async def test_what_was_merged_stays_so_and_something_new_gets_a_new_request(desk):
    first, second = desk.commit("second\n"), desk.commit("third\n")
    made = await desk.publish(first)
    desk.hub.reviews[0].merged, desk.hub.reviews[0].state = True, "closed"
    seen = await desk.publisher.look(made)
    same = await desk.publish(first)
    newer = await desk.publish(second)

    assert (seen.stage, same.stage, desk.hub.created) == (Stage.MERGED, Stage.MERGED, 2)
    assert (newer.stage, newer.number) == (Stage.DRAFT, 2)


async def test_what_a_person_has_closed_is_not_opened_again(github):
    first, second = github.commit("second\n"), github.commit("third\n")
    made = await github.publish(first)
    github.hub.reviews[0].state = "closed"
    seen = await github.publisher.look(made)
    same = await github.publish(first)
    refused = await github.publish(second)

    assert (seen.stage, same.stage, refused.stage) == (Stage.CLOSED, Stage.CLOSED, Stage.REFUSED)
    assert "was closed by somebody" in refused.reason
    assert (github.hub.created, github.hub.tip()) == (1, first)


async def test_a_strangers_fork_with_the_same_branch_is_not_ours(desk):
    await desk.publish(desk.commit("second\n"))
    mine = desk.hub.reviews[0]
    desk.hub.reviews.append(type(mine)(2, "x", mine.body, BRANCH, "main", fork=True))
    newer = await desk.publish(desk.commit("third\n"))

    assert (newer.number, desk.hub.reviews[1].body) == (1, desk.hub.reviews[1].body)
    assert newer.commit in mine.body and newer.commit not in desk.hub.reviews[1].body


async def test_a_comment_is_said_once_also_behind_many_others_and_closing_is_for_good(desk):
    made = await desk.publish(desk.commit("second\n"))
    desk.hub.page_size = 2
    first = await comment(desk.publisher, made, "The rollout was stopped.")
    desk.hub.reviews[0].comments[:0] = ["a", "b", "c"]
    second = await comment(desk.publisher, made, "The rollout was stopped.")
    other = await comment(desk.publisher, made, "It goes on.")
    closed = await close(desk.publisher, made)
    twice = await close(desk.publisher, made)

    assert (first, second, other) == (True, False, True)
    said = [each.partition("\n")[0] for each in desk.hub.reviews[0].comments]
    assert said == ["a", "b", "c", "The rollout was stopped.", "It goes on."]
    assert (closed.stage, twice.stage, desk.hub.reviews[0].state) == (Stage.CLOSED, Stage.CLOSED, "closed")


async def test_the_branchs_request_is_found_on_the_last_page(desk):
    await desk.publish(desk.commit("second\n"))
    review = desk.hub.reviews[0]
    desk.hub.page_size = 1
    others = [type(review)(number, "x", "", "main", "main") for number in (2, 3)]
    desk.hub.reviews += others
    newer = await desk.publish(desk.commit("third\n"))

    assert (newer.number, desk.hub.created) == (1, 1)


async def test_caps_hold_a_request_back_until_another_is_over(github):
    first = await github.publish(github.commit("second\n"))
    github.hub.reviews[0].head = "main"  # of another batch
    held = await github.publish(github.commit("third\n"), max_open=1)
    before = github.hub.tip()
    github.hub.reviews[0].state = "closed"
    gone = await github.publisher.publish(held, await github.mirror(held.commit))

    assert (held.stage, held.code) == (Stage.HELD, "")
    assert "1 of our requests are open in team/app, and its cap is 1" in held.reason and "publish sync" in held.hint
    assert before == first.commit, "nothing was pushed for what is held"
    assert (gone.stage, github.hub.tip()) == (Stage.DRAFT, held.commit)


async def test_what_somebody_published_since_it_was_held_is_not_put_back(github):
    first, second = github.commit("second\n"), github.commit("third\n")
    held = await github.publish(first, windows=["sun 00:00-00:01 UTC"])
    await github.publish(second)
    gone = await github.publisher.go_on(held, await github.mirror(first))

    assert (gone.commit, github.hub.tip()) == (second, second)


async def test_a_request_that_was_removed_altogether_gets_a_successor(github):
    await github.publish(github.commit("second\n"))
    github.hub.reviews.clear()
    newer = await github.publish(github.commit("third\n"))

    assert (newer.stage, len(github.hub.reviews)) == (Stage.DRAFT, 1)


async def test_a_cap_of_the_owner_counts_what_we_have_open_elsewhere(github):
    elsewhere = github.wanted(github.commit("x\n")).model_copy(
        update={"key": "e" * 32, "path": "team/other", "stage": Stage.OPEN}
    )
    github.book.put(elsewhere)
    held = await github.publish(github.commit("second\n"), max_open_per_owner=1)
    other = await github.publish(github.commit("second\n"), max_open_per_owner=2)

    assert (held.stage, other.stage) == (Stage.HELD, Stage.DRAFT)
    assert "repositories of team, and its cap is 1" in held.reason


async def test_a_window_holds_everything_back_and_says_when_it_opens(github):
    held = await github.publish(github.commit("second\n"), windows=["sun 00:00-00:01 UTC"])
    github.slept.now_s = 1_763_856_030.0  # Sunday, 2025-11-23, half a minute after midnight
    gone = await github.publisher.publish(held, await github.mirror(held.commit))

    assert held.stage is Stage.HELD and "opens at 2025-11-23 00:00 UTC" in held.reason
    assert gone.stage is Stage.DRAFT


@pytest.mark.parametrize("into", ["", "main", "other"])
async def test_no_request_is_made_from_the_branch_that_changes_go_into(github, into):
    git(github.hub.bare, "branch", "other", "main")
    before = github.hub.tip("main")
    wanted = github.wanted(github.commit("second\n"), into=into).model_copy(update={"branch": "main", "into": into})
    refused = await github.publisher.publish(wanted, await github.mirror(wanted.commit))

    assert refused.stage is Stage.REFUSED and "a request cannot be made from main" in refused.reason
    assert (github.hub.tip("main"), github.hub.reviews) == (before, [])
