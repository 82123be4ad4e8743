"""Plans as graphs: what is refused, and where a plan stands with the results that there are."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envelope.budget import Budget
from envelope.errors import ErrorCode
from envelope.ids import new_task_id, new_trace_id
from envelope.lifecycle import State
from envelope.messages import ErrorInfo, Output, TaskResult
from envelope.plan import OnFailure, Plan, PlanStep, StepStatus
from orchestrator.planner.checks import Bounds, faults_of
from orchestrator.planner.graph import as_graph, in_order, needs
from orchestrator.planner.survey import MAX_TRIES, REPLAN_WORD, Failure, Known, survey_of

AGENTS = {"build": ("read:**", "edit:src/**"), "explore": ("read:**",)}


def step(name: str, *after: str, agent: str = "build", **fields) -> PlanStep:
    return PlanStep(step_id=name, title=f"Do {name}", goal=f"do {name}", agent=agent, depends_on=after, **fields)


def plan(*steps: PlanStep) -> Plan:
    return Plan(goal="all of it", steps=steps)


def ended(code: ErrorCode | None = None, message: str = "") -> TaskResult:
    fields = {"status": State.COMPLETED, "output": Output(text=message)}
    if code:
        error = ErrorInfo.of(code, message)
        state = State.CANCELLED if code is ErrorCode.CANCELLED else State.ERROR
        fields = {"status": state, "errors": (error,)}
    return TaskResult(trace_id=new_trace_id(), task_id=new_task_id(), attempt=1, **fields)


@pytest.mark.parametrize(
    ("wrong", "message", "hint"),
    [
        (plan(), "the plan has no steps", "one at least"),
        (plan(step("a"), step("a")), "2 steps are called 'a'", "of its own"),
        (plan(step("a", "b"), step("b", "a")), "these steps wait for each other: a -> b -> a", "depends_on"),
        (plan(step("a", "a")), "these steps wait for each other: a -> a", "depends_on"),
        (plan(step("a"), step("b", "aa")), "the step 'b' depends on 'aa', which is no step", "did you mean 'a'?"),
        (plan(step("a", agent="bild")), "the step 'a' names an agent 'bild' that there is not", "mean 'build'?"),
        (plan(step("a", auth_scope=("edit:**",))), "the grant 'edit:**' is not within", "edit:src/**"),
        (plan(step("a", agent="explore", auth_scope=("edit:src/**",))), "the grant 'edit:src/**'", "read:**"),
        (
            plan(*(step(name, budget=Budget(max_cost_microusd=3_000_000)) for name in "ab")),
            "the steps may spend $6.00 together, and the goal has $5.00",
            "smaller budgets",
        ),
        (
            plan(step("a", deadline_ms=40_000), step("b", "a", deadline_ms=40_000)),
            "the steps may take 80 s, and there are 60 s",
            "shorter deadlines",
        ),
        (plan(step("a").model_copy(update={"goal": " "})), "the step 'a' has no goal", "say its goal"),
        (
            plan(step("a", on_failure=OnFailure.REPLAN)),
            "'a' asks for another plan when it fails",
            "allow_replan = true",
        ),
        (plan(step("a")).model_copy(update={"allow_replan": True, "max_replans": 4}), "again 4 times", "max_replans"),
        (plan(step("a\n# b")), "the step_id of the step 'a\\n# b' is not one line", "line breaks"),
        (plan(step("x" * 41)), "has 41 characters", "say it in 40"),
        (plan(*(step(f"s{n}") for n in range(51))), "the plan has 51 steps, more than 50", "larger"),
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_refused_in_a_sentence_with_a_hint(wrong, message, hint):
    bounds = Bounds(AGENTS, scope=("read:**", "edit:**"), max_cost_microusd=5_000_000, deadline_ms=60_000)
    [fault, *_] = faults_of(wrong, bounds)
    assert message in fault.message
    assert hint in fault.hint


def test_a_scope_within_the_agents_but_not_the_goals_is_refused():
    [fault] = faults_of(plan(step("a", auth_scope=("edit:src/a.py",))), Bounds(AGENTS, scope=("read:**",)))
    assert "wants too much" in fault.message


def test_a_plan_that_fits_has_no_faults_also_where_steps_may_run_at_once():
    bounds = Bounds(AGENTS, scope=("read:**", "edit:**"), max_cost_microusd=5_000_000, deadline_ms=60_000)
    fits = plan(step("a", deadline_ms=40_000), step("b", deadline_ms=40_000), step("c", "a", agent="explore"))
    assert list(faults_of(fits, bounds)) == []


def test_steps_that_say_nothing_of_their_order_are_a_chain_and_those_that_say_none_are_not():
    said = {"title": "t", "goal": "g", "agent": "build"}
    chain = Plan.model_validate({"goal": "", "steps": [{"step_id": name, **said} for name in "abc"]})
    free = Plan.model_validate({"goal": "", "steps": [{"step_id": name, **said, "depends_on": []} for name in "abc"]})
    assert [one.depends_on for one in as_graph(chain).steps] == [(), ("a",), ("b",)]
    assert as_graph(free) == free


def known(results=None, overruled=None, versions=None) -> Known:
    return Known("root", versions or {}, results if results is not None else {}, overruled or {})


def statuses(survey) -> dict[str, str]:
    return {name: str(one.status) for name, one in survey.standings.items()}


def test_what_failed_holds_up_only_what_depends_on_it():
    graph = plan(step("a", on_failure=OnFailure.REPLAN), step("b"), step("c", "a"), step("d", "b"))
    results = {}
    first = survey_of(graph, known(results))
    results |= {run.key: ended(ErrorCode.TURN_LIMIT) if run.step.step_id == "a" else ended() for run in first.wanted}
    then = survey_of(graph, known(results))

    assert statuses(then) == {"a": "failed", "b": "done", "c": "pending", "d": "running"}
    assert then.failed(OnFailure.REPLAN).step.step_id == "a"


def test_a_skipped_step_lets_those_after_it_go_on_without_its_work():
    graph = plan(step("a", on_failure=OnFailure.SKIP), step("b", "a"))
    [run] = survey_of(graph, known()).wanted
    then = survey_of(graph, known({run.key: ended(ErrorCode.TURN_LIMIT, "too long")}))

    assert statuses(then) == {"a": "skipped", "b": "running"}
    assert then.wanted[0].before == ()
    assert then.shown().steps[0].outcome == "too long"


def test_a_step_is_tried_three_times_and_then_stops_the_plan():
    graph, results = plan(step("a", on_failure=OnFailure.RETRY)), {}
    for _ in range(MAX_TRIES):
        [run] = survey_of(graph, known(results)).wanted
        results[run.key] = ended(ErrorCode.TURN_LIMIT)

    assert len(results) == MAX_TRIES
    assert survey_of(graph, known(results)).failed(OnFailure.STOP).step.step_id == "a"


@pytest.mark.parametrize("code", [ErrorCode.REFUSED, ErrorCode.BUDGET, ErrorCode.CANCELLED])
@pytest.mark.parametrize("policy", list(OnFailure))
def test_what_a_person_refused_or_money_ended_is_not_tried_again(code, policy):
    graph = plan(step("a", on_failure=policy))
    [run] = survey_of(graph, known()).wanted
    assert survey_of(graph, known({run.key: ended(code, "no")})).failed(OnFailure.STOP)


@pytest.mark.parametrize("policy", list(OnFailure))
def test_whoever_wants_a_new_plan_gets_one_whatever_the_step_says(policy):
    graph = plan(step("a", on_failure=policy))
    [run] = survey_of(graph, known()).wanted
    wish = ended(ErrorCode.CANCELLED, f"{REPLAN_WORD}start with the tests")
    then = survey_of(graph, known({run.key: wish}))
    assert then.failed(OnFailure.REPLAN).outcome.endswith("start with the tests")


def test_a_step_whose_work_collides_is_done_again_on_top_of_the_other_and_those_after_it_too():
    graph = plan(step("a"), step("b", on_failure=OnFailure.RETRY), step("c", "b"))
    results = {}
    while wanted := survey_of(graph, known(results)).wanted:
        results |= {run.key: ended() for run in wanted}
    runs = {name: one.run for name, one in survey_of(graph, known(results)).standings.items()}
    assert runs["b"].before == ()

    collision = Failure(ErrorInfo.of(ErrorCode.COLLISION, "both change x"), others=("a",))
    again = survey_of(graph, known(results, {runs["b"].key: collision}))

    assert statuses(again) == {"a": "done", "b": "running", "c": "pending"}
    assert again.wanted[0].before == (runs["a"],)
    results[again.wanted[0].key] = ended()
    last = survey_of(graph, known(results, {runs["b"].key: collision}))
    assert statuses(last)["c"] == "running"
    assert last.wanted[0].key != runs["c"].key


def test_an_equal_step_of_a_later_plan_is_another_one():
    graph = plan(step("a"))
    [first], [second] = (survey_of(graph, known(versions={"a": version})).wanted for version in (1, 2))
    assert first.key != second.key


@st.composite
def graphs(draw) -> Plan:
    count = draw(st.integers(1, 9))
    policies = st.sampled_from([OnFailure.RETRY, OnFailure.SKIP, OnFailure.REPLAN])
    steps = [
        step(f"s{n}", *(f"s{k}" for k in range(n) if draw(st.booleans())), on_failure=draw(policies))
        for n in range(count)
    ]
    return plan(*draw(st.permutations(steps)))


def play(graph: Plan, seed: int, fails, *, forgets: bool) -> tuple[dict[str, str], list[str]]:
    """Run a plan, with the runs ending in the order of `seed`; `forgets`: whoever leads it is killed after each."""
    chance, started, results = random.Random(seed), [], {}
    world: dict[str, TaskResult] = {}  # what the queue knows by key
    while True:
        survey = survey_of(graph, known(results))
        for run in survey.wanted:
            if run.key not in world:
                before = {each.step.step_id for each in run.before}
                skipped = {name for name, one in survey.standings.items() if one.status is StepStatus.SKIPPED}
                assert set(run.step.depends_on) <= before | skipped
                started.append(run.key)
                world[run.key] = ended(ErrorCode.TURN_LIMIT) if fails(run) else ended()
        if not survey.wanted:
            return statuses(survey), started
        run = chance.choice(survey.wanted)
        results = {**({} if forgets and chance.random() < 0.5 else results), run.key: world[run.key]}


@settings(max_examples=150, deadline=None)
@given(graphs(), st.integers(0, 2**32), st.integers(0, 2**32), st.sets(st.integers(0, 8)))
def test_each_run_starts_once_after_what_it_needs_in_whatever_order_they_end_and_whoever_is_killed(
    graph, one_seed, other_seed, bad
):
    def fails(run) -> bool:
        return int(run.step.step_id[1:]) in bad

    one, started = play(graph, one_seed, fails, forgets=False)
    other, started_again = play(graph, other_seed, fails, forgets=True)

    assert one == other
    assert sorted(started) == sorted(started_again)
    assert len(set(started)) == len(started)
    assert "running" not in one.values()


@settings(deadline=None)
@given(graphs())
def test_the_order_of_a_plan_is_one_in_which_it_can_be_done(graph):
    ordered = [each.step_id for each in in_order(graph)]
    assert sorted(ordered) == sorted(each.step_id for each in graph.steps)
    for name, before in needs(graph).items():
        assert [ordered.index(each) for each in before] == sorted(ordered.index(each) for each in before)
        assert all(ordered.index(each) < ordered.index(name) for each in before)
