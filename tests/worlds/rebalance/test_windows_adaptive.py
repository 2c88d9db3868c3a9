"""Experts over windows: the nearest decides, at the price that a user's wishes say, or the balance rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proreus.cli.main import main
from proreus.kernels.arrays import F64
from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import Card, Checkpoint, load_checkpoint, save_checkpoint
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig
from proreus.worlds.rebalance.windows.encoding.figures import FIGURES, hosting_figures
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES, VERSION, encode_moves
from proreus.worlds.rebalance.windows.play import play_part
from proreus.worlds.rebalance.windows.policies.adaptive import (
    USUAL_PRICE,
    MoveExperts,
    Weighed,
    price_of,
    read_experts,
)
from proreus.worlds.rebalance.windows.policies.catalogue import MOVE_POLICIES, MovePolicyOptions
from proreus.worlds.rebalance.windows.policies.columns import ADAPTIVE, BALANCE, LEARNED
from proreus.worlds.rebalance.windows.policies.policy import MovePolicy, balance_weights
from proreus.worlds.rebalance.windows.scenarios import (
    WindowScenario,
    parse_window_scenario,
    window_scenario_from_json,
)
from proreus.worlds.rebalance.windows.simulation.columns import MOVES
from proreus.worlds.rebalance.windows.simulation.run import WindowSimulation
from proreus.worlds.rebalance.windows.simulation.world import WindowsOptions, WindowsWorld
from proreus.worlds.rebalance.windows.training.combine import combine

SMALL = WindowScenario("windows/serial", config=WindowsConfig(nodes=4, pods=16, windows=120))
PARALLEL = replace(SMALL, name="windows/parallel", options=WindowsOptions(service="parallel"))
WEIGHTS = np.random.default_rng(3).normal(size=(2, 2, len(FEATURES)))
PART = (60, 90)


def outcomes(world: WindowsWorld, policy: MovePolicy) -> F64:
    return play_part(world.sibling(), policy, PART)[0]


def figures_in(world: WindowsWorld, window: int = PART[0]) -> F64:
    world.begin(window, window + 1)
    return hosting_figures(world.hosting)


def test_weights_of_the_balance_rule_decide_as_it_does() -> None:
    for scenario in (SMALL, PARALLEL):
        world = scenario.load(1)
        scorer = MovePolicy("scorer", LEARNED, weights=balance_weights())
        results = outcomes(world, scorer)
        assert (results == outcomes(world, MovePolicy("balance", BALANCE))).all() and results[
            :, MOVES
        ].sum() > 3


def test_a_move_is_scored_by_the_features_that_an_environment_shows() -> None:
    world = SMALL.load(2)
    world.begin(*PART)
    weights = WEIGHTS[0, 0]
    scores = np.where(world.mask(), encode_moves(world.hosting) @ weights, -np.inf)
    scores[-1] = 0.0
    observation = WindowSimulation(world, PART).next_decision()
    assert observation is not None
    decision = MovePolicy("scorer", LEARNED, weights=weights).decide(observation)
    assert decision == MovePolicy("same", ADAPTIVE, experts=_standing(world, weights)).decide(observation)
    assert (decision.unit, decision.target) == divmod(int(scores.argmax()), 4)  # type: ignore[union-attr]


def _standing(world: WindowsWorld, weights: F64) -> Weighed:
    return Weighed(("here",), figures_in(world)[None], weights[None])


def test_figures_change_with_the_demand_and_with_no_move() -> None:
    world = SMALL.load(0)
    before = figures_in(world)
    world.begin(*PART)
    world.move(0, (int(world.hosting.where[0]) + 1) % 4)
    assert (hosting_figures(world.hosting) == before).all()
    assert dict(zip(FIGURES, before, strict=True))["adds_up"] == 0.0
    assert figures_in(PARALLEL.load(0))[0] == 1.0
    heavy = replace(SMALL, config=replace(SMALL.config, load=0.7)).load(0)
    assert figures_in(heavy)[1] > before[1] + 0.1
    large = replace(SMALL, config=replace(SMALL.config, nodes=40, pods=160)).load(0)
    assert figures_in(large)[[1, 2, 4, 5]] == pytest.approx(before[[1, 2, 4, 5]], abs=0.1)


def test_the_nearest_expert_decides_and_a_demand_unlike_all_is_left_to_balance() -> None:
    serial, parallel = SMALL.load(1), PARALLEL.load(1)
    stands = np.array([figures_in(serial), figures_in(parallel)])
    policy = MovePolicy("both", ADAPTIVE, experts=Weighed(("one", "other"), stands, WEIGHTS[0]))
    for world, k in ((serial, 0), (parallel, 1)):
        expert = MovePolicy("expert", LEARNED, weights=WEIGHTS[0, k])
        assert (outcomes(world, policy) == outcomes(world, expert)).all()
    far = MovePolicy("far", ADAPTIVE, experts=Weighed(("one", "other"), stands + 9.0, WEIGHTS[0]))
    assert (outcomes(serial, far) == outcomes(serial, MovePolicy("balance", BALANCE))).all()
    observation = WindowSimulation(serial, PART).next_decision()
    assert observation is not None
    assert "a demand like one." in policy.explain(observation).note
    note = far.explain(observation).note
    assert "unlike anything that was trained on: balance decides" in note and "does not score" in note


def test_a_wish_lies_between_the_prices_around_it() -> None:
    experts = MoveExperts(("one", "other"), np.zeros((2, len(FIGURES))), np.array([0.01, 1.0]), WEIGHTS)
    assert experts.at(0.1).weights == pytest.approx(WEIGHTS.mean(axis=0))
    for price, place in ((0.01, 0), (0.0, 0), (1.0, 1), (5.0, 1), (np.inf, 1)):
        assert (experts.at(price).weights == WEIGHTS[place]).all()
    assert price_of({}) == USUAL_PRICE and price_of({"violations": 1.0}) == 0.0
    assert price_of({"violations": 4.0, "migrations": 1.0}) == 0.25
    assert price_of({"migrations": 1.0}) == np.inf
    with pytest.raises(UsageError, match="--objective wait: the policy was trained for violations, migrat"):
        price_of({"wait": 1.0})


def test_what_ships_moves_less_the_more_a_migration_costs() -> None:
    world, moved = WindowScenario("windows/serial").load(0), []
    for objective in ("violations", "violations=10,migrations=1", "violations=1,migrations=1", "migrations"):
        policy = MOVE_POLICIES.make("learned", MovePolicyOptions(objective))
        assert isinstance(policy, MovePolicy)
        moved.append(play_part(world.sibling(), policy, (900, 1000))[0][:, MOVES].sum())
    assert moved == sorted(moved, reverse=True) and moved[-1] < 0.5 * moved[0]


def _run(folder: Path, price: float, scenario: str = "windows/serial", *more: str) -> str:
    words = ["train", "rebalance", "--scenarios", scenario, "--generations", "1", "--population", "4"]
    words += ["--deployments", "1", "--train-seeds", "1", "--validation-seeds", "1", "--confirm-seeds", "1"]
    words += ["--stretch", "12", "--price", str(price), "--processes", "1", "--quiet", "--out", str(folder)]
    assert main([*words, *more]) == 0
    return str(folder)


def test_runs_become_experts_and_one_without_a_price_that_others_have_is_named(tmp_path: Path) -> None:
    low, high = _run(tmp_path / "low", 0.05), _run(tmp_path / "high", 0.5)
    assert main(["combine", "rebalance", low, high, "--out", str(tmp_path / "both"), "--quiet"]) == 0
    checkpoint = load_checkpoint(tmp_path / "both", VERSION)
    experts = read_experts(checkpoint, tmp_path / "both")
    assert experts.names == ("windows/serial",) and experts.prices.tolist() == [0.05, 0.5]
    made = MOVE_POLICIES.make(high, MovePolicyOptions())
    assert isinstance(made, MovePolicy) and (experts.weights[1, 0] == made.weights).all()
    again = combine([str(tmp_path / "both"), high], None)
    assert (again.tensors["weights"] == checkpoint.tensors["weights"]).all()
    with pytest.raises(UsageError, match=r"windows/parallel: there is no run with --price 0.05, as others"):
        combine([low, high, _run(tmp_path / "other", 0.5, "windows/parallel")], None)
    for source, match in (("hotspot", "neither"), (f"{low}/best", "folder of the training run")):
        with pytest.raises(UsageError, match=match):
            combine([source], None)
    with pytest.raises(UsageError, match="a run with --price above 0 is an expert"):
        combine([_run(tmp_path / "free", 0.0)], None)


def test_runs_with_other_rules_of_the_game_are_experts_of_their_own(tmp_path: Path) -> None:
    usual = _run(tmp_path / "usual", 0.1)
    fuller = _run(tmp_path / "fuller", 0.1, "windows/serial", "--threshold", "0.6")
    checkpoint = combine([usual, fuller], None)
    experts = read_experts(checkpoint, tmp_path)
    assert experts.names == ("windows/serial", "windows/serial, threshold 0.6")
    assert (experts.stands[0] != experts.stands[1]).any()


def test_a_search_may_start_as_what_ships_is_for_its_demand(tmp_path: Path) -> None:
    run = _run(tmp_path / "on", 0.1, "windows/serial", "--start", "learned", "--sigma", "1e-9")
    shipped, made = MOVE_POLICIES.make("learned"), MOVE_POLICIES.make(run)
    assert isinstance(shipped, MovePolicy) and shipped.experts is not None and isinstance(made, MovePolicy)
    expert = shipped.experts.names.index("windows/serial")
    assert made.weights == pytest.approx(shipped.experts.weights[expert], abs=1e-6)


def test_a_name_may_say_what_counts() -> None:
    policy = MOVE_POLICIES.make("learned@violations=2+migrations=1")
    weighed = MOVE_POLICIES.make("learned", MovePolicyOptions("violations=2,migrations=1"))
    assert isinstance(policy, MovePolicy) and isinstance(weighed, MovePolicy)
    assert policy.experts is not None and weighed.experts is not None
    assert (policy.experts.weights == weighed.experts.weights).all()


def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    good = {"stands": np.zeros((1, len(FIGURES))), "prices": np.ones(1), "weights": WEIGHTS[:1, :1]}
    card = Card("rebalance", "adaptive", "experts", VERSION, config={"experts": ["one"]})
    for field, bad in (
        ("prices", -np.ones(1)),
        ("stands", np.zeros((1, 2))),
        ("weights", np.zeros((1, 1, 2))),
    ):
        save_checkpoint(tmp_path / field, Checkpoint(card, {**good, field: bad}))
        with pytest.raises(InputError, match=field):
            MOVE_POLICIES.make(str(tmp_path / field))
    save_checkpoint(tmp_path / "names", Checkpoint(replace(card, config={}), good))
    with pytest.raises(InputError, match=r"config\.experts"):
        MOVE_POLICIES.make(str(tmp_path / "names"))


def test_a_generated_scenario_may_have_another_number_of_nodes() -> None:
    scenario = parse_window_scenario("windows/parallel@6", None)
    hosting = scenario.load(0).hosting
    assert (hosting.pods.size, hosting.where.size, scenario.options.service) == (6, 30, "parallel")
    assert window_scenario_from_json(scenario.to_json()) == scenario
    for bad in ("windows/serial@", "windows/serial@x", "windows/serial@1", "windows/monitor@4"):
        with pytest.raises(UsageError):
            parse_window_scenario(bad, None)
