"""The learned controller: its forecast, the fluid model it is searched in, and what it does with both."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proreus.kernels.arrays import F64
from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from proreus.worlds.inference.datasets.generator import Load, generate
from proreus.worlds.inference.datasets.load_shapes import KEPT_BACK, TRAINED, load_shape
from proreus.worlds.inference.encoding.load_history import SIZE, VERSION, features_of
from proreus.worlds.inference.play import play
from proreus.worlds.inference.policies.catalogue import POLICIES, SHIPPED
from proreus.worlds.inference.policies.reserve import (
    BESIDE_LOAD,
    HIGH,
    LEAN,
    LOW,
    M_STRAIN,
    TOLD,
    Demand,
    exceeded_at,
    first_memory,
    forecast_quantiles,
    wanted_total,
)
from proreus.worlds.inference.policies.reserve_controller import Reserve
from proreus.worlds.inference.policies.reserve_weights import BIAS, WEIGHT, net_of
from proreus.worlds.inference.scenarios import PRESETS, InferenceScenario, from_json, parse
from proreus.worlds.inference.state.fluid import SERVICE
from proreus.worlds.inference.state.observation import InferenceObservation
from proreus.worlds.inference.state.quantile_forecast import (
    QUANTILES,
    SCORES,
    TARGETS,
    at_score,
    forecaster_of,
)
from proreus.worlds.inference.training.finetune_goal import FinetuneConfig, FinetuneGoal
from proreus.worlds.inference.training.fluid_curriculum import drawn_episodes, fluid_of, played
from proreus.worlds.inference.training.fluid_episodes import foresee_load, play_fluid
from proreus.worlds.inference.training.member_fitness import Rated, fitness_of
from proreus.worlds.inference.training.reserve_goal import (
    VECTOR,
    ReserveConfig,
    ReserveGoal,
    vector_of,
    vector_parts,
)
from proreus.worlds.inference.training.simulated_runs import RuleRuns
from tests.worlds.inference.looks import pool, seen

TENSORS = load_checkpoint(SHIPPED, VERSION).tensors
FORECASTER = forecaster_of(TENSORS, SIZE)
_LEAN = 4
"""Where the search in the simulator has the lean."""


@pytest.mark.parametrize("family", [*TRAINED, *KEPT_BACK])
def test_load_shapes_have_a_mean_of_one_and_the_seed_decides(family: str) -> None:
    draws = [load_shape(family, 3_000.0, 120.0, np.random.default_rng(seed)) for seed in (1, 1, 2)]  # type: ignore[arg-type]
    assert np.isfinite(draws[0]).all() and (draws[0] > 0).all() and len(draws[0]) == 300
    assert np.array_equal(draws[0], draws[1]) and not np.array_equal(draws[0], draws[2])
    assert draws[0].mean() == pytest.approx(1.0, rel=0.3)  # cut at both ends


def test_a_drawn_scenario_is_another_load_for_every_seed_and_written_down() -> None:
    scenario = parse("drawn-steps", None)
    scenario = replace(scenario, load_=replace(scenario.load_, seconds=120.0))
    first, again, other = (scenario.load(seed).arrival for seed in (1, 1, 2))
    assert np.array_equal(first, again) and not np.array_equal(first[:50], other[:50])
    back = from_json(json.loads(json.dumps(scenario.to_json())), None)
    assert back == scenario and np.array_equal(back.load(1).arrival, first)
    with pytest.raises(UsageError, match="drawn-stepz"):
        parse("drawn-stepz", None)


def test_a_profile_shapes_the_rate_and_is_written_down() -> None:
    load = Load(rate=50.0, seconds=200.0, profile=(0.2, 1.8))
    arrival = generate("profile", load, 0).arrival
    assert (arrival >= 100.0).sum() > 5 * (arrival < 100.0).sum()
    with pytest.raises(UsageError, match="profile"):
        Load(profile=(-1.0,))
    scenario = InferenceScenario("profile", load)
    assert from_json(json.loads(json.dumps(scenario.to_json())), None) == scenario


def test_wishes_change_what_is_held_and_nothing_else_is_trained() -> None:
    history = np.tile([60.0, 60_000.0, 12_000.0], (60, 1))
    look = replace(seen(pool("mixed", active=2), now=600.0), history=history)

    def held(name: str) -> int:
        policy = POLICIES.make(name)
        assert isinstance(policy, Reserve)
        return policy.targets(look)["mixed"].count

    assert held("learned@gpu_hours=8") < held("learned") < held("learned@promises=8")
    with pytest.raises(UsageError, match="latency"):
        POLICIES.make("learned@latency=2")


def test_who_wishes_for_stability_turns_less() -> None:
    scenario = parse("surge", None).of_part("valid")

    def turns(name: str) -> float:
        runs = [play(scenario, scenario.load(seed), POLICIES.make(name), seed) for seed in range(3)]
        return sum(run.measures["oscillation"] for run in runs)

    assert turns("learned@stability=10") < 0.75 * turns("learned")


def test_single_requests_in_a_silent_hour_are_no_waves() -> None:
    """A recording of ServeGen falls silent for hours; nine instances were started for a request or two."""
    silent = Load(rate=20.0, seconds=3_600.0, profile=(*[1.0] * 3, *[0.0005] * 6))
    scenario = replace(parse("surge", None), name="silent", load_=silent)
    run, player = scenario.start(scenario.load(1), 1), POLICIES.make("learned").fresh(1)
    held = []
    while (look := run.next_decision()) is not None:
        held.append((look.now, sum(one.coming for one in look.pools)))
        run.apply(player.decide(look))
    assert max(count for now, count in held if now < 1_000.0) > 2
    assert max(count for now, count in held if now > 1_800.0) <= 3
    assert max(count for now, count in held if now > 3_000.0) == 2


def test_a_load_that_is_known_for_longer_is_no_other_load() -> None:
    """What must be held does not drift with the length of a history that says the same."""
    net, found = net_of(TENSORS), set()
    for intervals in range(110, 360, 10):
        told = np.zeros(TOLD)
        demand = Demand(13.0, 10.0 * intervals, 10.0, 12, 12, 0, 0, 50, 1.0, 0.1, 0, 1.0, 1.0, 1.0)
        wanted_total(net, np.full(intervals, 9.0), demand, first_memory(), told)
        found.add((float(told[1]), float(told[2])))
    assert len(found) == 1


def test_what_ends_late_after_a_jump_says_nothing_of_instances() -> None:
    """More came than they can do; what waited is late, also when there are enough of them at last."""
    net, memory, told = net_of(TENSORS), first_memory(), np.zeros(TOLD)
    series = [4.0] * 40

    def decide(load: float, active: float, met: float, wait: float) -> None:
        series.append(load)
        now = 10.0 * len(series)
        demand = Demand(13.0, now, 10.0, active, active, 0, wait * active, 300, met, wait, 0, 1.0, 1.0, 1.0)
        wanted_total(net, np.array(series), demand, memory, told)

    for _ in range(10):
        decide(8.0, 6.0, 0.0, 12.0)
    for _ in range(4):
        decide(8.0, 14.0, 0.0, 6.0)
    assert memory[M_STRAIN] == 1.0
    for _ in range(20):
        decide(8.0, 14.0, 1.0, 0.0)
    for _ in range(6):  # late again, with room to spare and no reason
        decide(8.0, 14.0, 0.2, 3.0)
    assert memory[M_STRAIN] > 1.2


def test_starts_beyond_what_it_was_fitted_to_are_left_to_others() -> None:
    controller, look = Reserve("learned", net_of(TENSORS)), seen(pool("mixed"))
    assert controller.unsure(look) == ""
    assert "a start takes 5,000 s" in controller.unsure(replace(look, start_seconds=5_000.0))
    assert "finite" in controller.unsure(replace(look, history=np.full((3, 3), np.nan)))


def test_an_explanation_says_forecast_doubt_and_reserve() -> None:
    told = POLICIES.make("learned")
    assert isinstance(told, Reserve)
    verdict = told.explain(seen(pool("prompt"), pool("token"), intervals=30)).verdicts[0]
    assert {"work now", "likely at most then", "doubt", "reserve", "for losses"} <= set(verdict.scores)


def test_features_do_not_depend_on_size() -> None:
    series = np.random.default_rng(0).gamma(9.0, 1.0, 100)
    small, level = features_of(series, 12.0)
    large, thousandfold = features_of(1_000.0 * series, 12.0)
    np.testing.assert_allclose(small, large, atol=1e-9)
    assert thousandfold == pytest.approx(1_000.0 * level)


@pytest.mark.parametrize("series", [[0.0], [0.0] * 50, [1e-300, 1e300], [1e300] * 9, [0.0, 1e5, 0.0]])
def test_features_of_anything_are_finite(series: list[float]) -> None:
    for steps in (0.01, 1.0, 60.0, 1e6):
        found, level = features_of(np.array(series), steps)
        assert np.isfinite(found).all() and level > 0


def test_the_kernel_forecasts_what_numpy_does() -> None:
    net = net_of(TENSORS)
    for seed in range(5):
        features, _ = features_of(np.random.default_rng(seed).gamma(4.0, 1.0, 80), 13.0)
        found = np.zeros((len(TARGETS), len(QUANTILES)))
        forecast_quantiles(net, features, found)
        expected = FORECASTER.quantiles(features)
        np.testing.assert_allclose(found, expected, atol=1e-9)
        assert (np.diff(found, axis=1) >= 0).all()
        for score in (-2.0, 0.0, 0.7, *SCORES, 3.0):
            assert exceeded_at(found[0], score) == pytest.approx(at_score(expected[0], score))


def test_the_forecast_rises_with_the_load_and_doubts_more_what_is_restless() -> None:
    draw = np.random.default_rng(1)
    calm = 10.0 + 0.1 * draw.normal(size=120)
    wild = 10.0 * np.exp(0.6 * draw.normal(size=120))
    rising = np.linspace(2.0, 12.0, 120)
    spread = {
        name: np.ptp(FORECASTER.quantiles(features_of(series, 13.0)[0])[0])
        for name, series in (("calm", calm), ("wild", wild))
    }
    assert spread["wild"] > 1.3 * spread["calm"]
    median = QUANTILES.index(0.5)
    up, down = (FORECASTER.quantiles(features_of(way, 13.0)[0])[0, median] for way in (rising, rising[::-1]))
    assert up > down


@pytest.mark.parametrize("name", ["steady", "surge", "colocated"])
def test_the_fluid_model_is_close_to_the_simulator(name: str) -> None:
    """The same controller over the same requests: GPU-hours within 6 %, promises within 3 points."""
    scenario, net = PRESETS[name].of_part("train"), net_of(TENSORS)
    hours, kept = [], []
    for seed in range(3):
        measures = play(scenario, scenario.load(seed), Reserve("learned", net), seed).measures
        episode = fluid_of(scenario, seed)
        known = foresee_load(net, episode.load.work, episode.setting)
        paid, share, _ = play_fluid(net, episode.load, episode.setting, SERVICE, known)
        hours.append((paid * 4.0 / 3_600.0, measures["gpu_hours"]))
        kept.append((100.0 * share, measures["slo_attainment"]))
    fluid, exact = np.mean(hours, axis=0)
    assert fluid == pytest.approx(exact, rel=0.06)
    assert np.mean(kept, axis=0)[0] == pytest.approx(np.mean(kept, axis=0)[1], abs=3.0)


def test_drawn_episodes_are_the_seeds_and_end() -> None:
    net, one, other = net_of(TENSORS), drawn_episodes(16, 3), drawn_episodes(16, 3)
    for first, second in zip(one, other, strict=True):
        assert played(net, first) == played(net, second)
        cost, share = played(net, first)
        assert 0.0 < cost < np.inf and 0.0 <= share <= 1.0


def test_a_vector_is_a_checkpoint_and_back() -> None:
    vector = np.random.default_rng(0).normal(size=VECTOR)
    weight, bias = vector_parts(vector)
    np.testing.assert_allclose(vector_of({"figures.weight": weight, "figures.bias": bias}), vector)


def test_a_search_in_the_fluid_model_finds_better_than_a_bad_start() -> None:
    config = ReserveConfig(population=4, traces=2, drawn=8, episodes=4, drawn_episodes=4, validation_runs=1)
    with ThreadPoolExecutor(1) as threads:
        goal = ReserveGoal([PRESETS["steady"]], config, threads, FORECASTER)
        drawn = goal.draw(np.random.default_rng(0))
        wasteful = goal.start.copy()
        wasteful[4] += 6.0  # instances beside what is forecast
        (start, worse), counts = goal.fitness([goal.start, wasteful], drawn)
        assert worse < start - 0.05
        assert counts == {"episodes": 12}
        assert set(goal.validate(goal.start)) == {"steady"}
        assert net_of(goal.tensors(goal.start)) is not None


def test_a_search_in_the_simulator_moves_the_caution_of_its_base_alone() -> None:
    config = FinetuneConfig(population=2, traces=2, runs=2, validation_runs=1)
    short = replace(PRESETS["steady"], load_=replace(PRESETS["steady"].load_, seconds=240.0))
    with ThreadPoolExecutor(1) as threads:
        goal = FinetuneGoal([short], config, threads, TENSORS)
        drawn = goal.draw(np.random.default_rng(0))
        wasteful = goal.start.copy()
        wasteful[_LEAN] = 6.0
        (start, worse), counts = goal.fitness([goal.start, wasteful], drawn)
    assert worse < start - 0.05 and counts == {"runs": 4}
    begin, moved = goal.tensors(goal.start), goal.tensors(wasteful)
    assert all(np.array_equal(tensor, TENSORS[name]) for name, tensor in begin.items())
    assert moved[BIAS][LEAN] == pytest.approx(TENSORS[BIAS][LEAN] + 6.0)
    assert [name for name in TENSORS if not np.array_equal(moved[name], begin[name])] == [BIAS]
    weighed = goal.tensors(np.eye(wasteful.size)[-1])
    assert [name for name in TENSORS if not np.array_equal(weighed[name], begin[name])] == [WEIGHT]
    assert np.count_nonzero(weighed[WEIGHT] != begin[WEIGHT]) == 1


def test_hours_of_a_day_begin_with_instances_enough() -> None:
    """A cluster of the wrong size says nothing of who controls it."""
    config = FinetuneConfig(population=2, traces=2, runs=2, validation_runs=1)
    day = replace(PRESETS["day"], load_=replace(PRESETS["day"].load_, rate=4.0))
    with ThreadPoolExecutor(1) as threads:
        drawn = FinetuneGoal([day], config, threads, TENSORS).draw(np.random.default_rng(0))
    assert [case.scenario.load_.seconds for case in drawn] == [7_200.0]
    assert all(case.best.kept > 0.98 for case in drawn)


def test_members_that_pay_less_are_better_and_missing_promises_are_dear() -> None:
    def fitness(paid: float, kept: float, name: str = "surge") -> float:
        return fitness_of({name: [Rated(paid, 10.0, kept, 0.995)] * 4}, {"surge"})

    assert fitness(9.0, 0.995) > fitness(10.0, 0.995) > fitness(10.0, 0.98)
    # What is behind the rule of a scenario pays for that besides, drawn loads do not.
    behind = fitness(10.0, 0.995) - fitness(11.0, 0.995)
    assert behind > 2.0 * (fitness(10.0, 0.995, "ramps") - fitness(11.0, 0.995, "ramps"))


def test_more_instances_where_the_load_is_higher_and_fewer_where_prompts_are_found() -> None:
    def total(rate: float, found: float = 0.0) -> int:
        history = np.tile([rate, 1_000.0 * rate, 200.0 * rate], (60, 1))
        look = replace(seen(pool("mixed", active=4), now=600.0), history=history)
        look = replace(look, traffic=replace(look.traffic, ended=100, found=found))
        return Reserve("learned", net_of(TENSORS)).targets(look)["mixed"].count

    assert total(10.0) < total(40.0) < total(120.0)
    assert total(120.0, found=0.7) < total(120.0)


def test_few_instances_are_few_only_where_any_does_any_work() -> None:
    """Where instances stand apart, each load has fewer of them than there are."""
    weight = TENSORS[WEIGHT].copy()
    weight[LEAN, SIZE + BESIDE_LOAD.index("log instances below a few, where any does any work")] = 3.0
    lean = Reserve("learned", net_of({**TENSORS, WEIGHT: weight}))
    plain = Reserve("learned", net_of(TENSORS))
    history = np.tile([5.0, 5_000.0, 500.0], (60, 1))
    alike = replace(seen(pool("prompt", active=2), pool("token", active=2), now=600.0), history=history)
    slow = replace(alike.abilities[1], prompt_tokens=4_000.0)

    def caution(controller: Reserve, look: InferenceObservation) -> float:
        return controller.fresh(0).targets(look)["prompt"].because["caution"]

    assert caution(lean, alike) < 0.8 * caution(plain, alike)
    for apart in (replace(alike, models=2), replace(alike, abilities=(alike.abilities[0], slow))):
        assert caution(lean, apart) == caution(plain, apart)


def test_nobody_is_drained_while_all_together_are_too_few() -> None:
    history = np.tile([60.0, 60_000.0, 1_000.0], (60, 1))
    look = replace(seen(pool("prompt", active=2), pool("token", active=4), now=600.0), history=history)
    controller = Reserve("learned", net_of(TENSORS))
    change = controller.decide(look)
    assert change.token >= 0 and change.prompt >= 0
    assert change.prompt + change.token > 0


def test_a_reserve_is_held_where_instances_are_taken_away() -> None:
    history = np.tile([20.0, 20_000.0, 4_000.0], (60, 1))
    look = replace(seen(pool("mixed", active=3), now=600.0), history=history)
    usual = Reserve("learned", net_of(TENSORS)).targets(look)["mixed"]
    spot = Reserve("learned", net_of(TENSORS)).targets(replace(look, life_seconds=900.0))["mixed"]
    assert usual.because["for losses"] == 0.0 < spot.because["for losses"]


def test_figures_stay_within_bounds_whatever_the_weights() -> None:
    assert (LOW < HIGH).all()
    wild = {**TENSORS, BIAS: np.full_like(TENSORS[BIAS], 1e6)}
    history = np.tile([20.0, 20_000.0, 4_000.0], (60, 1))
    look = replace(seen(pool("mixed"), now=600.0), history=history)
    assert not look.refusal(Reserve("learned", net_of(wild)).decide(look))


def test_a_damaged_checkpoint_is_refused(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path)) / "broken"
    card = load_checkpoint(SHIPPED, VERSION).card
    save_checkpoint(folder, Checkpoint(card, {**TENSORS, BIAS: np.full_like(TENSORS[BIAS], np.nan)}))
    with pytest.raises(InputError, match="figures"):
        POLICIES.make(str(folder))


def test_what_rules_came_to_is_played_once_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = PRESETS["steady"].of_part("train")
    scenario = replace(scenario, load_=replace(scenario.load_, seconds=120.0))
    first = RuleRuns(tmp_path / "rules").of(scenario, "chiron", range(2))
    monkeypatch.setattr(
        "proreus.worlds.inference.training.simulated_runs.simulated",
        lambda *_: pytest.fail("it was played before"),
    )
    again = RuleRuns(tmp_path / "rules").of(scenario, "chiron", range(2))
    assert [(run.cost, run.kept, run.gpus) for run in again] == [(r.cost, r.kept, r.gpus) for r in first]
    assert all(np.array_equal(one.active, other.active) for one, other in zip(first, again, strict=True))
    (file,) = (tmp_path / "rules").iterdir()
    file.write_text('{"0": {"cost": 1}}')
    with pytest.raises(InputError, match="no runs of a rule"):
        RuleRuns(tmp_path / "rules").of(scenario, "chiron", range(2))


def test_what_was_missed_long_ago_is_no_debt() -> None:
    """A day after all were late, a service may be as bold as one that never was."""
    net, told = net_of(TENSORS), np.zeros(TOLD)
    late, fresh = first_memory(), first_memory()

    def missed_so_far(memory: F64, now: float, met: float) -> float:
        demand = Demand(13.0, now, 10.0, 12, 12, 0, 0, 50, met, 0.0, 0, 1.0, 1.0, 1.0)
        wanted_total(net, np.full(60, 9.0), demand, memory, told)
        return float(told[8])

    assert missed_so_far(late, 600.0, 0.0) > 0.3
    for decision in range(3 * 8_640):
        after = missed_so_far(late, 610.0 + 10.0 * decision, 1.0), missed_so_far(fresh, 610.0, 1.0)
    assert after[0] == pytest.approx(after[1], abs=1e-4)
