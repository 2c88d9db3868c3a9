"""The planner: futures that fit the forecast, a kernel that plays them, and what it chooses."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from proreus.kernels.arrays import F64
from proreus.model.errors import UsageError
from proreus.policies.checkpoint import load_checkpoint
from proreus.policies.planner import Effort
from proreus.worlds.inference.encoding.load_history import VERSION
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES, SHIPPED, InferenceOptions
from proreus.worlds.inference.policies.load_futures import (
    Outlook,
    at_scores,
    chances_of,
    drawn_loads,
    grid_of,
)
from proreus.worlds.inference.policies.planner import Planner, Thought, _note, worst_tenth
from proreus.worlds.inference.policies.reserve import Demand, first_memory
from proreus.worlds.inference.policies.reserve_controller import Asked
from proreus.worlds.inference.policies.reserve_weights import net_of
from proreus.worlds.inference.policies.rollouts import (
    MISSED,
    PAID,
    Situation,
    followed,
    play_candidate,
    play_futures,
)
from proreus.worlds.inference.scenarios import PRESETS
from proreus.worlds.inference.state.fluid import SERVICE, STEP
from proreus.worlds.inference.state.observation import InferenceObservation
from proreus.worlds.inference.state.quantile_forecast import QUANTILES, SCORES, at_score
from tests.worlds.inference.looks import pool, seen

NET = net_of(load_checkpoint(SHIPPED, VERSION).tensors)
QUANTILES_BY_HAND = np.array(
    [[-0.3, 0.0, 0.35, 0.5, 0.65], [0.05, 0.2, 0.5, 0.65, 0.8], [0.1, 0.35, 0.8, 1.0, 1.2]]
)
CERTAIN = np.array([[-0.02, -0.01, 0.0, 0.005, 0.01]] * 3)


def _look(rate: float = 60.0, active: int = 4, **more: object) -> InferenceObservation:
    """An hour of the same load."""
    history = np.tile([rate, 1_000.0 * rate, 100.0 * rate], (120, 1))
    history *= 1.0 + 0.02 * np.random.default_rng(5).normal(size=(120, 1))
    calm = pool("mixed", active=active, pending_tokens=100)
    return replace(seen(calm, now=1_200.0), history=history, **more)  # type: ignore[arg-type]


def _planner(futures: int = 32, seed: int = 0) -> Planner:
    return Planner("planner", NET, effort=Effort(futures), seed=seed)


def _thought(planner: Planner, look: InferenceObservation) -> Thought:
    planner.targets(look)
    assert planner.thought is not None
    return planner.thought


class _Sure(Planner):
    """Knows the level that the load goes to within a start, as a logarithm of a ratio."""

    goes_to = 0.0

    def _outlook(self, asked):  # type: ignore[no-untyped-def]
        found = super()._outlook(asked)
        return Outlook(found.level, 0.0, CERTAIN + self.goes_to, 0.02)


# Futures.


def test_futures_have_the_quantiles_of_the_forecast() -> None:
    grid = grid_of(13.0, 5)
    for noise in (0.02, 0.2):
        chances = chances_of(grid, 512, 1)
        loads = drawn_loads(Outlook(10.0, 0.0, QUANTILES_BY_HAND, noise), grid, chances)
        intervals = loads.reshape(len(loads), grid.intervals, grid.each).mean(axis=2)
        pairs = (intervals[:, 1:] + intervals[:, :-1]) / 2.0
        came = (
            intervals[:, grid.ahead : grid.ahead + 2].mean(axis=1),
            pairs[:, : grid.ahead + 1].max(axis=1),
            pairs[:, : 3 * grid.ahead].max(axis=1),
        )
        for found, expected, off in zip(came, QUANTILES_BY_HAND, (0.18, 0.06, 0.06), strict=True):
            quantiles = np.quantile(np.log(found / 10.0), QUANTILES)
            np.testing.assert_allclose(quantiles, expected, atol=off)


def test_the_far_end_of_a_forecast_is_believed_as_far_as_is_said() -> None:
    grid = grid_of(13.0, 5)
    whole, none = (
        drawn_loads(Outlook(10.0, 0.0, QUANTILES_BY_HAND, 0.05, tail), grid, chances_of(grid, 256, 1)).max()
        for tail in (1.0, 0.0)
    )
    assert none < 0.8 * whole


def test_one_future_is_the_likely_one_and_seeds_draw_others() -> None:
    grid = grid_of(13.0, 5)
    assert not chances_of(grid, 1, 3).scores.any()
    assert np.array_equal(chances_of(grid, 8, 3).scores, chances_of(grid, 8, 3).scores)
    assert not np.array_equal(chances_of(grid, 8, 3).scores, chances_of(grid, 8, 4).scores)
    scores = (-2.0, 0.0, 0.7, *SCORES, 3.0)
    one_by_one = [at_score(QUANTILES_BY_HAND[0], score) for score in scores]
    np.testing.assert_allclose(at_scores(QUANTILES_BY_HAND[0], np.array(scores)), one_by_one)


@pytest.mark.parametrize("steps", [0.01, 1.0, 1.5, 13.0, 1e9, math.inf])
@pytest.mark.parametrize("each", [1, 5, 300, 10_000])
def test_futures_of_any_start_are_bounded(steps: float, each: int) -> None:
    grid = grid_of(steps, each)
    loads = drawn_loads(Outlook(1.0, 0.0, QUANTILES_BY_HAND, 0.3), grid, chances_of(grid, 3, 0))
    assert loads.shape == (3, grid.steps) and grid.steps <= max(1_500, 2 * each)
    assert np.isfinite(loads).all() and (loads > 0).all()


# The kernel.


def _situation() -> Situation:
    demand = Demand(13.0, 1_000.0, 10.0, 4.0, 6.0, 0.0, 3.0, 0.0, 1.0, 0.0, 0.0, 1.0, 1.0, 2.0)
    return Situation(
        demand=demand,
        memory=first_memory(),
        series=np.full(40, 3.0),
        ready=np.array([30.0, 70.0]),
        busy=0.7,
        strain=1.1,
        apart=0.2,
        own=np.array([0.1, 0.3]),
        requests=20.0,
        start_seconds=120.0,
        each=5,
        stride=3,
        least=1.0,
        most=20.0,
        change=5.0,
        loss_rate=0.0005,
    )


def _reference(begin: Situation, loads: F64, losses: F64, wanted: F64, totals: tuple[float, float]) -> F64:
    """The same play, told plainly: a list of those that start, and requests step by step."""
    starting = sorted(int(seconds / STEP) for seconds in begin.ready)
    active, queue, busy = begin.demand.active, begin.demand.backlog * begin.strain, begin.busy
    paid = missed = 0.0
    target = totals[0]
    for step, load in enumerate(loads):
        coming = active + len(starting)
        decides = step % (begin.each * begin.stride) == 0
        if decides and step:
            must, may, use = wanted[step // (begin.each * begin.stride) - 1]
            spare = ((active - begin.apart) * use - loads[step - 1] * begin.strain) * begin.start_seconds
            more = totals[0] - totals[1] + math.ceil(max(queue - max(spare, 0.0), 0.0) / 25.0)
            target = must + more if must + more > coming else min(coming, may + more)
            target = np.clip(target, coming - begin.change, coming + begin.change)
            target = np.clip(target, min(begin.least, coming), max(begin.most, coming))
        if decides:
            for _ in range(round(target - coming)):
                starting.append(step + round(begin.start_seconds / STEP))
            for _ in range(round(coming - target)):
                if starting:
                    starting.remove(max(starting))
                elif active > 1:
                    active, paid = active - 1, paid + 10.0
        active += sum(due == step for due in starting)
        starting = [due for due in starting if due != step]
        if losses[step] < active * begin.loss_rate * STEP:
            active -= 1
        room = max(active - begin.apart, 0.01) * SERVICE.speed * STEP
        work = load * STEP * begin.strain
        done = min(queue + work, room)
        queue = queue + work - done  # in this order: a rest of rounding would start an instance
        busy += STEP / SERVICE.memory * (done / room - busy)
        tokens = 1.0 / (1.0 + math.exp((busy - SERVICE.busiest) / SERVICE.edge))
        waits = queue / room * STEP + begin.own - SERVICE.wait
        first = float(np.mean(1.0 / (1.0 + np.exp(np.minimum(waits / 0.3, 50.0)))))
        missed += begin.requests * load * STEP * (1.0 - tokens * first)
        paid += (active + len(starting)) * STEP
    lately = float(np.mean(loads[-begin.each * begin.stride :]))
    spare = max((active - begin.apart) * SERVICE.speed - lately * begin.strain, 1.0)
    return np.array([paid + queue / SERVICE.speed, missed + begin.requests * lately * queue / spare])


@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_plays_what_a_plain_program_plays(seed: int) -> None:
    draw = np.random.default_rng(seed)
    grid = grid_of(13.0, 5)
    begin = _situation()
    loads = drawn_loads(Outlook(4.0, 0.1, QUANTILES_BY_HAND, 0.1), grid, chances_of(grid, 3, seed))
    losses = draw.random(loads.shape)
    totals = np.array([[4.0, 6.0], [6.0, 6.0], [7.0, 6.0], [9.0, 6.0]])
    played = play_futures(NET, begin, loads, losses, totals)
    for future in range(3):
        wanted = np.zeros((grid.steps // 15, 3))
        followed(NET, begin, loads[future], wanted)
        for place, (total, base) in enumerate(totals.tolist()):
            expected = _reference(begin, loads[future], losses[future], wanted, (total, base))
            np.testing.assert_allclose(played[future, place], expected, rtol=1e-9)
            alone = play_candidate(begin, loads[future], losses[future], wanted, (total, base))
            np.testing.assert_allclose(alone, expected, rtol=1e-9)


def test_what_is_held_in_a_future_follows_what_has_come_there() -> None:
    """Until the load rises nobody knows that it will."""
    begin = _situation()
    flat = np.full(grid_of(13.0, 5).steps, 3.0)
    rises = flat.copy()
    rises[100:] = 12.0
    calm, caught = np.zeros((13, 3)), np.zeros((13, 3))
    followed(NET, begin, flat, calm)
    followed(NET, begin, rises, caught)
    known = 100 // 15
    assert np.array_equal(calm[:known], caught[:known])
    assert (caught[known + 1 :, 0] > calm[known + 1 :, 0]).all()


def test_where_all_are_late_to_the_end_more_instances_are_still_worth_something() -> None:
    """They leave less to those who come after the future."""
    begin = _situation()
    begin = begin._replace(demand=begin.demand._replace(backlog=1e5), loss_rate=0.0)
    steps = grid_of(13.0, 5).steps
    totals = np.array([[6.0, 6.0], [7.0, 6.0], [9.0, 6.0]])
    played = play_futures(NET, begin, np.full((1, steps), 3.0), np.ones((1, steps)), totals)[0]
    assert (np.diff(played[:, MISSED]) < 0).all()


# What is chosen.


class _Careless(Planner):
    """Sees only what is paid, so that the fewest are the cheapest; remembers what must be."""

    must = 0

    def total(self, seen: InferenceObservation, asked: Asked) -> tuple[int, dict[str, float]]:
        self.must = asked.must
        return super().total(seen, asked)

    def _costs(self, outcome: F64, requests: F64, asked: Asked) -> F64:
        return np.asarray(outcome[:, :, PAID])


@pytest.mark.parametrize("active", [4, 12, 20])
@pytest.mark.parametrize("starting", [0, 2])
def test_futures_do_not_speak_against_what_must_be_nor_against_what_starts(
    active: int, starting: int
) -> None:
    look = _look(active=active)
    look = replace(look, pools=(replace(look.pools[0], starting=(30.0,) * starting),))
    planner = _Careless("planner", NET)
    thought = _thought(planner, look)
    held = int(thought.totals[thought.base])
    fewest = max(min(planner.must, held), int(thought.totals[0]))
    assert thought.totals[thought.chosen] == (held if starting else fewest)


def test_a_certain_rise_is_ordered_beforehand_and_a_certain_calm_is_not() -> None:
    look = _look(rate=30.0, active=6)
    calm, rising = _Sure("planner", NET), _Sure("planner", NET)
    rising.goes_to = math.log(3.0)
    flat, grown = _thought(calm, look), _thought(rising, look)
    work = float(look.history[:, 1].mean() / 10_000.0 + look.history[:, 2].mean() / 1_000.0)
    assert flat.totals[flat.chosen] <= math.ceil(work / 0.7)
    assert grown.totals[grown.chosen] >= math.ceil(1.5 * work)
    assert grown.totals[grown.chosen] > flat.totals[flat.chosen]


def test_the_same_seed_decides_the_same() -> None:
    look = _look()
    first, again, fresh = _thought(_planner(), look), _thought(_planner(), look), _planner(seed=3).fresh(0)
    assert np.array_equal(first.costs, again.costs) and first.chosen == again.chosen
    assert np.array_equal(first.costs, _thought(fresh, look).costs)
    assert not np.array_equal(first.costs, _thought(_planner(seed=1), look).costs)
    scenario = PRESETS["steady"]
    runs = [play(scenario, scenario.load(7), _planner(8, 2).fresh(2), 7).measures for _ in range(2)]
    assert runs[0]["weighed_gpu_hours"] == runs[1]["weighed_gpu_hours"]


def test_more_futures_agree_about_the_cost() -> None:
    look = _look()

    def apart(futures: int) -> float:
        costs = np.array([_thought(_planner(futures, seed), look).expected for seed in range(8)])
        return float((costs.std(axis=0) / costs.mean(axis=0)).mean())

    assert apart(512) < 0.5 * apart(4)
    chosen = {
        int(thought.totals[thought.chosen]) for thought in (_thought(_planner(512, s), look) for s in (1, 2))
    }
    assert len(chosen) == 1


def test_the_worst_tenth_is_one_future_at_least() -> None:
    costs = np.array([[1.0, 5.0], [3.0, 4.0]])
    assert worst_tenth(costs).tolist() == [3.0, 5.0]
    assert worst_tenth(np.arange(20.0)[:, None]).tolist() == [18.5]


def test_a_deadline_is_held() -> None:
    planner = Planner("planner", NET, effort=Effort(1_000, deadline=100.0))
    ticks = iter(range(10_000))
    planner.clock = lambda: 0.020 * next(ticks)
    assert 8 <= len(_thought(planner, _look()).costs) <= 40
    planner = Planner("planner", NET, effort=Effort(1_000, deadline=1.0))
    ticks = iter(range(10_000))
    planner.clock = lambda: 0.020 * next(ticks)
    look = _look()
    as_learned = POLICIES.make("learned")
    assert planner.decide(look) == as_learned.decide(look) and planner.thought is None


def test_how_much_it_thinks_is_said_by_options() -> None:
    planner = POLICIES.make("planner", InferenceOptions(futures=5, deadline=20.0))
    assert isinstance(planner, Planner) and planner.effort == Effort(5, 20.0)
    assert len(_thought(planner, _look()).costs) <= 5
    with pytest.raises(UsageError, match="--futures 0"):
        InferenceOptions(futures=0)


def test_an_explanation_says_what_every_candidate_costs() -> None:
    look, planner = _look(), POLICIES.make("planner")
    assert isinstance(planner, Planner)
    told = planner.explain(look)
    candidates = [verdict for verdict in told.verdicts if verdict.place.endswith("in all")]
    assert len(candidates) >= 5
    for verdict in candidates:
        assert verdict.scores["worst tenth"] >= verdict.scores["expected cost"] > 0.0
    assert "futures" in told.note and "learned" in told.note
    assert told.decision == planner.decide(look), "asking changes nothing"


@pytest.mark.parametrize("start_seconds", [0.0, 10.0, 120.0, 5_000.0, 1e9])
def test_any_start_is_answered(start_seconds: float) -> None:
    for rate in (0.0, 1e-9, 60.0, 1e9):
        look = _look(rate=rate, start_seconds=start_seconds)
        assert look.refusal(_planner(4).decide(look)) == ""


def test_starts_beyond_what_the_forecast_knows_are_left_to_others() -> None:
    assert "a start takes 5,000 s" in _planner().unsure(_look(start_seconds=5_000.0))


def test_the_reason_says_cheapest_only_of_the_cheapest() -> None:
    costs = np.array([[4.0, 3.0, 2.0], [4.0, 3.0, 3.5]]) * 3_600.0
    thought = Thought(np.array([3, 4, 5]), costs, costs.mean(axis=0), base=0, chosen=0, least=3)
    unsure = _note(thought)
    assert unsure.startswith("As learned, 3: 5 is cheaper on average and in 2 of 2 futures, but not by more")
    assert "but 6 there must be" in _note(replace(thought, base=0, least=6))
    assert "which would hold 3: cheapest in 2 futures" in _note(replace(thought, chosen=2))
    assert "cheapest of what may be chosen" in _note(replace(thought, chosen=1))
