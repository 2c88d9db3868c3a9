"""The planner of the world `vms`: its futures are the world's own, it gains by them, and it keeps time."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from proreus.cli.main import main
from proreus.kernels.structs import pack
from proreus.model.errors import UsageError
from proreus.policies.planner import Effort
from proreus.worlds.vms.model import FULL_CODES, Full, ServerShape
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.catalogue import VM_POLICIES, VmPolicyOptions, make_vm_policy, rule_policy
from proreus.worlds.vms.policies.planner.candidates import candidates
from proreus.worlds.vms.policies.planner.demand import LEAST_SEEN, Outlook
from proreus.worlds.vms.policies.planner.futures import VmFuture, new_board, play_future
from proreus.worlds.vms.policies.planner.policy import VmPlanner
from proreus.worlds.vms.simulation.runs import VmSimulation, planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS, VmsOptions, VmsWorld, compile_trace, with_servers
from proreus.worlds.vms.state.observation import VmObservation
from proreus.worlds.vms.state.servers import NOWHERE
from proreus.worlds.vms.training.training_trace import TrainingTrace
from tests.worlds.vms.strategies import make_trace

TRACE = TrainingTrace(machines=3_000, seed=7)
SCENARIO_OF: dict[Full, str] = {"end": "recovering", "reject": "rejecting", "wait": "waiting"}
AHEAD = 60
"""Machines of the futures that are compared with the world."""


def planner(
    base: str = "worst_fit",
    futures: int = 6,
    deadline: float = 0.0,
    clock: Callable[[], float] = time.perf_counter,
) -> VmPlanner:
    return VmPlanner("planner", rule_policy(base), Effort(futures, deadline), clock=clock)


def ticks(step: float) -> Callable[[], float]:
    """A clock that moves by so many seconds whenever somebody looks at it."""
    times: Iterator[float] = (step * k for k in itertools.count())
    return lambda: next(times)


def the_future(world: VmsWorld, observation: VmObservation, moved_in: dict[int, float]) -> VmFuture:
    """What really comes: who runs leaves when it does, and the next machines of the trace arrive."""
    past, work = observation.past, world.work
    assert past is not None
    running = np.array(
        [machine for machine in moved_in if past.place[machine] != NOWHERE and machine < past.machine], int
    )
    leaving = np.array(
        [moved_in[machine] + work.lifetime[world.start + machine] for machine in running.tolist()]
    )
    order = np.argsort(leaving, kind="stable")
    first = world.start + past.machine
    coming = slice(first, first + AHEAD)
    nobody = np.zeros(running.size)
    return pack(
        VmFuture(
            flavour=np.concatenate([past.flavour[running][order], work.flavour[coming]]).astype(np.int32),
            place=np.concatenate([past.place[running][order], np.zeros(AHEAD)]).astype(np.int32),
            arrival=np.concatenate([nobody, [observation.now], work.arrival[coming][1:]]),
            leaving=leaving[order],
            stay=np.concatenate([nobody, work.lifetime[coming]]),
            given=np.array([0, running.size, FULL_CODES[observation.treatment.full]]),
        )
    )


@pytest.mark.parametrize("full", list(SCENARIO_OF))
@pytest.mark.parametrize("decision", [0, 45, 80])
def test_a_future_that_comes_true_is_what_the_world_does(full: Full, decision: int) -> None:
    options = with_servers(SCENARIOS[SCENARIO_OF[full]], 2)
    rule = rule_policy("worst_fit")
    world = VmsWorld(TRACE.work(options.double), options, 600)
    world.begin(700)
    moved_in: dict[int, float] = {}
    foretold, counted_from, last = None, None, 0
    while (observation := world.next_decision()) is not None:
        assert observation.past is not None
        machine = observation.past.machine
        if foretold is None and len(moved_in) >= decision:
            future = the_future(world, observation, moved_in)
            board = new_board(observation.servers, observation.flavours, future.flavour.size)
            choice = rule.decide(observation)
            foretold = play_future(board, observation.servers, rule.new_rule(), future, choice)
            counted_from, last = world.figures(), machine + AHEAD
            waited = observation.waited
        if foretold is not None and machine >= last:
            break
        moved_in[machine] = observation.now
        world.apply(rule.decide(observation))
    assert foretold is not None and counted_from is not None
    now = world.figures()
    if full == "end":
        assert foretold == min(now.placed - counted_from.placed, AHEAD)
    elif full == "reject":
        away = (last - counted_from.placed - counted_from.rejected) - (now.placed - counted_from.placed)
        assert foretold == -away
    else:
        assert foretold == pytest.approx(-(now.wait - counted_from.wait - waited))


def test_it_gains_where_the_futures_show_what_fits_together() -> None:
    # Five cores and three fill a node of eight, and worst fit keeps them apart.
    trace = make_trace([(5.0 if k % 2 == 0 else 3.0, 1.0, 1, 1e6) for k in range(200)])
    options = VmsOptions(servers=(ServerShape(12, 8.0, 64.0),), release=False)
    runs = planned_runs(compile_trace(trace, options.double), options, np.array([0]))
    (ours,), _ = play_runs(runs, planner("worst_fit"))
    (plain,), _ = play_runs(runs, rule_policy("worst_fit"))
    assert plain.placed + 4 <= ours.placed <= 48


def test_the_same_seed_gives_the_same_run_and_asking_changes_nothing() -> None:
    options = with_servers(SCENARIOS["rejecting"], 1)
    runs = planned_runs(TRACE.work(options.double), options, np.array([0, 600]), 120)
    plain, _ = play_runs(runs, planner(futures=4).fresh(3))
    asked, simulation, notes = planner(futures=4).fresh(3), VmSimulation(runs), []
    while (observation := simulation.next_decision()) is not None:
        explanation = asked.explain(observation)
        decision = asked.decide(observation)
        assert explanation.decision == decision and explanation.policy == "planner"
        notes.append(explanation.note)
        simulation.apply(decision)
    assert tuple(simulation.ended) == plain
    few = "machines seen so far: 1; futures are drawn from 30 on"
    assert f"As worst_fit decides; no future was played ({few})." in notes[0]
    assert any("futures that tell them apart" in note for note in notes[LEAST_SEEN:])


def test_futures_in_which_everybody_finds_room_tell_nothing() -> None:
    options = with_servers(SCENARIOS["recovering"], 30)
    simulation = VmSimulation(planned_runs(TRACE.work(options.double), options, np.array([0]), 50))
    base, policy, notes = rule_policy("worst_fit"), planner(), []
    while (observation := simulation.next_decision()) is not None:
        notes.append(policy.explain(observation).note)
        place = policy.decide(observation)
        assert place == base.decide(observation)
        simulation.apply(place)
    assert "plays the 4 futures" in notes[-1], "after a first look no more are played"
    assert "No future tells it from the next best" in notes[-1]


def test_a_decision_ends_at_its_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    options = with_servers(SCENARIOS["recovering"], 3)
    runs = planned_runs(TRACE.work(options.double), options, np.array([0]), 60)
    drawn = 0
    plain = Outlook.future

    def counted(self: Outlook, length: int, random: np.random.Generator) -> VmFuture:
        nonlocal drawn
        drawn += 1
        return plain(self, length, random)

    monkeypatch.setattr(Outlook, "future", counted)
    policy = planner(futures=1_000, deadline=10.0, clock=ticks(0.001))
    simulation, most = VmSimulation(runs), 0
    while (observation := simulation.next_decision()) is not None:
        before = drawn
        simulation.apply(policy.decide(observation))
        most = max(most, drawn - before)
    assert 2 <= most <= 5, "a look at the clock takes a millisecond, a future two"


def test_why_no_future_was_played_is_the_reason_that_holds() -> None:
    options = with_servers(SCENARIOS["rejecting"], 1)
    simulation = VmSimulation(planned_runs(TRACE.work(options.double), options, np.array([0]), 120))
    base, policy = rule_policy("worst_fit"), planner()
    late = planner(deadline=1.0, clock=ticks(0.01))
    reasons = set()
    while (observation := simulation.next_decision()) is not None:
        assert observation.past is not None
        seen = observation.past.flavour.size
        note = late.explain(observation).note
        if seen >= LEAST_SEEN:
            alone = len(candidates(observation, base.rule, base.decide(observation))) == 1
            why = "one place alone comes into question" if alone else "the 1 ms of a decision were over"
            assert f"no future was played ({why})" in note
            assert ("no future was played" in policy.explain(observation).note) == alone
            reasons.add(why)
        simulation.apply(policy.decide(observation))
    assert len(reasons) == 2, "both were seen"


def test_only_places_that_differ_come_into_question() -> None:
    options = with_servers(SCENARIOS["recovering"], 4)
    world = VmsWorld(TRACE.work(options.double), options)
    world.begin(0)
    observation = world.next_decision()
    assert observation is not None
    for name in ("first_fit", "worst_fit"):
        rule = rule_policy(name)
        choice = rule.decide(observation)
        assert candidates(observation, rule.rule, choice) == [choice], "all servers are empty"


def test_where_nothing_is_told_of_the_past_it_is_its_base() -> None:
    options = with_servers(SCENARIOS["waiting"], 3)
    world = VmsWorld(TRACE.work(options.double), options)
    world.begin(0)
    base, policy = rule_policy("balance_fit"), planner("balance_fit")
    for _ in range(60):
        observation = world.next_decision()
        assert observation is not None
        silent = replace(observation, past=None)
        place = policy.decide(silent)
        assert place == base.decide(observation)
        said = "no future was played (nothing is known of the machines before)"
        assert said in policy.explain(silent).note
        world.apply(place)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("planner@random", "not by 'random'"),
        ("planner@planner", "not by 'planner'"),
        ("planner@nobody", "unknown policy 'nobody'"),
    ],
)
def test_a_base_that_cannot_play_futures_is_refused(name: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_vm_policy(name)


def test_senseless_efforts_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="--deadline -1"):
        VmPolicyOptions(deadline=-1.0)
    assert main(["simulate", "vms", "--policy", "planner", "--futures", "0", "--starts", "1"]) == 2
    assert "--futures 0 is outside 1..10,000" in capsys.readouterr().err


def test_it_is_a_policy_by_name_with_flags(capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        "simulate",
        "vms",
        "--scenario",
        "recovering@2",
        "--starts",
        "1",
        "--limit",
        "60",
        "--start",
        "10",
    )
    assert main([*words, "--policy", "planner@first_fit", "--futures", "3", "--explain", "60"]) == 0
    assert "futures" in capsys.readouterr().out
    assert isinstance(VM_POLICIES.make("planner"), VmPlanner)
