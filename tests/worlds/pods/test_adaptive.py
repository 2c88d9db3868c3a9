"""A policy of experts takes the one for the demand at hand, mixes neighbours, and knows what it knows not."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import Card, Checkpoint, load_checkpoint, save_checkpoint
from proreus.policies.experts import read_wishes
from proreus.worlds.pods.encoding.figures import FIGURES, demand_figures
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES, POD_KINDS, VERSION
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.adaptive import AdaptiveScorer, adaptive_scorer, rule_weights
from proreus.worlds.pods.policies.catalogue import POLICIES, PolicyOptions, make_policy
from proreus.worlds.pods.policies.explanation import PodPolicy
from proreus.worlds.pods.policies.rules.policy import PairWeights, RulePolicy
from proreus.worlds.pods.scenarios import Generated, PodScenario, parse_scenario
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import Compiled

GPU = PodScenario(Generated("gpu", 12), PodsOptions(drop_failures=True))
PLAIN = parse_scenario("small", None)
SHAPE = (len(POD_KINDS), len(PAIR_FEATURES))


@pytest.fixture(scope="module")
def gpu_work() -> Compiled:
    """A small cluster with GPUs."""
    return GPU.load(0)


def experts(stands: np.ndarray, seed: int = 0) -> AdaptiveScorer:
    """Experts with drawn weights for two objectives."""
    weights = np.random.default_rng(seed).normal(size=(2, len(stands), *SHAPE))
    names = tuple(f"expert-{k}" for k in range(len(stands)))
    return AdaptiveScorer(stands, weights, names, ("gpu_allocation", "pods_placed"), (1.0, 0.0))


def test_the_figures_are_those_of_the_demand(gpu_work: Compiled) -> None:
    figures = dict(zip(FIGURES, demand_figures(gpu_work), strict=True))
    demand, nodes = gpu_work.demand, gpu_work.cluster.nodes
    asked = demand.cpu / nodes.allocatable[:, 0].sum(), demand.gpu / (1000 * nodes.gpu_count.sum())
    assert figures["cpu_per_gpu"] == pytest.approx(np.log2(asked[0] / asked[1]))
    assert figures["shared_gpu"] == demand.shared_gpu / demand.gpu
    assert figures["no_gpus"] == 0.0


def test_the_figures_mean_the_same_at_any_size() -> None:
    sizes = [demand_figures(parse_scenario(f"gpu@{size}", None).load(0)) for size in (400, 1600)]
    assert sizes[0] == pytest.approx(sizes[1], abs=0.06)


def test_work_without_gpus_is_elsewhere(gpu_work: Compiled) -> None:
    plain = demand_figures(PLAIN.load(0))
    assert dict(zip(FIGURES, plain, strict=True))["no_gpus"] == 1.0
    assert not experts(plain[None, :]).shares(demand_figures(gpu_work)).any()


def test_gpus_that_nobody_asks_for_are_not_no_gpus(gpu_work: Compiled) -> None:
    idle = replace(gpu_work, demand=replace(gpu_work.demand, gpu=0, shared_gpu=0, several_gpu=0))
    figures = demand_figures(idle)
    assert dict(zip(FIGURES, figures, strict=True))["no_gpus"] == 0.5
    assert not experts(demand_figures(PLAIN.load(0))[None, :]).shares(figures).any()


def test_an_expert_decides_where_it_stands(gpu_work: Compiled) -> None:
    here = demand_figures(gpu_work)
    far = here + 10.0
    scorer = experts(np.array([far, here]))
    assert scorer.shares(here).round(6).tolist() == [0.0, 1.0]
    assert scorer.weights_for(gpu_work) == pytest.approx(scorer.weights[0, 1])
    assert scorer.note(gpu_work) == "Weights for a demand like 100% expert-1."


def test_between_two_experts_both_count(gpu_work: Compiled) -> None:
    here = demand_figures(gpu_work)
    off = np.eye(len(FIGURES))[0] * 0.05
    scorer = experts(np.array([here - off, here + off]))
    assert scorer.shares(here).tolist() == pytest.approx([0.5, 0.5])
    assert scorer.weights_for(gpu_work) == pytest.approx(scorer.weights[0].mean(axis=0))


def test_an_objective_that_an_expert_was_not_trained_for_is_told(gpu_work: Compiled) -> None:
    scorer = replace(
        experts(demand_figures(gpu_work)[None, :]), trained={"expert-0": ("gpu_allocation",)}, asked=()
    )
    usual = "Weights for a demand like 100% expert-0."
    assert scorer.note(gpu_work) == usual
    assert replace(scorer, asked=("gpu_allocation",)).note(gpu_work) == usual
    assert replace(scorer, asked=("pods_placed",)).note(gpu_work) == (
        f"{usual} For pods_placed there is no training on expert-0: those for gpu_allocation stand in."
    )


def test_a_demand_unlike_all_others_is_left_to_the_rule(gpu_work: Compiled) -> None:
    scorer = experts(demand_figures(gpu_work)[None, :] + 5.0)
    assert scorer.weights_for(gpu_work).tolist() == rule_weights(gpus=True).tolist()
    assert "unlike anything" in scorer.note(gpu_work) and "FGD decides" in scorer.note(gpu_work)
    assert "best fit decides" in scorer.note(PLAIN.load(0))


@pytest.mark.parametrize("scenario", [GPU, PLAIN], ids=["gpu", "small"])
def test_the_rules_weights_decide_as_the_rule(scenario: PodScenario, tmp_path: Path) -> None:
    gpus = scenario is GPU
    scorer = replace(experts(np.full((1, len(FIGURES)), 99.0)), wishes=(1.0, 0.0))
    folder = written(scorer, tmp_path / "far")
    measure, rule = ("gpu_allocation_peak", "fgd") if gpus else ("wait_mean", "best_fit")
    work = scenario.load(3)
    both = [
        simulate(work, make_policy(name), scenario.options).measures[measure] for name in (str(folder), rule)
    ]
    assert both[0] == pytest.approx(both[1], rel=0.02 if gpus else 0.25)


def written(scorer: AdaptiveScorer, folder: Path, **more: object) -> Path:
    """As a checkpoint."""
    config = {"experts": list(scorer.experts), "objectives": list(scorer.objectives), **more}
    card = Card(world="pods", kind="adaptive", algorithm="experts", encoding=VERSION, config=config)
    save_checkpoint(folder, Checkpoint(card, {"stands": scorer.stands, "weights": scorer.weights}))
    return folder


def test_a_user_weighs_the_objectives(gpu_work: Compiled, tmp_path: Path) -> None:
    scorer = experts(demand_figures(gpu_work)[None, :])
    folder = written(scorer, tmp_path / "two")
    weighed = adaptive_scorer(
        load_checkpoint(folder, VERSION), folder, read_wishes("gpu_allocation=3,pods_placed")
    )
    assert weighed.weights_for(gpu_work) == pytest.approx(
        0.75 * scorer.weights[0, 0] + 0.25 * scorer.weights[1, 0]
    )
    with pytest.raises(UsageError, match="--objective speed: the policy was trained for gpu_allocation"):
        make_policy(str(folder), PolicyOptions(objective="speed"))


def test_objectives_may_stand_in_the_name_of_a_policy(gpu_work: Compiled, tmp_path: Path) -> None:
    """Wherever policies are named, beside each other too; a folder with an @ in its name is one still."""
    scorer = experts(demand_figures(gpu_work)[None, :])
    folder = written(scorer, tmp_path / "two@2")
    by_option = make_policy(str(folder), PolicyOptions(objective="gpu_allocation=3,pods_placed"))
    by_name = make_policy(f"{folder}@gpu_allocation=3+pods_placed", PolicyOptions(objective="gpu_allocation"))
    plain = make_policy(str(folder))
    weights = [weights_of(policy, gpu_work).tolist() for policy in (by_option, by_name, plain)]
    assert weights[0] == weights[1] != weights[2]
    assert by_name.name == f"{folder}@gpu_allocation=3+pods_placed"
    with pytest.raises(UsageError, match="--objective speed: the policy was trained for gpu_allocation"):
        make_policy(f"{folder}@speed")
    with pytest.raises(UsageError, match="'learned@': nothing follows the @"):
        make_policy("learned@")
    with pytest.raises(UsageError, match="'linear' policy takes nothing behind an @"):
        make_policy("learned-linear@speed")


@pytest.mark.parametrize(
    ("trained", "says"),
    [
        (3, "config.trained: needs the objectives of each expert"),
        ({"mars": ["gpu_allocation"]}, "config.trained: needs the objectives of each expert"),
        ({"expert-0": []}, "config.trained.expert-0: needs a list of names"),
        ({"expert-0": ["speed"]}, "config.trained.expert-0: needs objectives of gpu_allocation"),
    ],
)
def test_a_card_that_says_nonsense_of_its_training_is_refused(
    trained: object, says: str, gpu_work: Compiled, tmp_path: Path
) -> None:
    folder = written(experts(demand_figures(gpu_work)[None, :]), tmp_path / "bad", trained=trained)
    with pytest.raises(InputError, match=says):
        make_policy(str(folder))


@pytest.mark.parametrize("text", ["wait=x", "wait=-1", "wait=nan", "wait=0", "wait=inf"])
def test_wishes_that_cannot_be_meant_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--objective"):
        PolicyOptions(objective=text)


@pytest.mark.parametrize("name", ["stands", "weights"])
def test_a_checkpoint_of_the_wrong_shape_is_refused(name: str, gpu_work: Compiled, tmp_path: Path) -> None:
    scorer = experts(demand_figures(gpu_work)[None, :])
    bad = replace(scorer, **{name: getattr(scorer, name)[:, :-1]})
    with pytest.raises(InputError, match=f"{name}: needs finite numbers of shape"):
        make_policy(str(written(bad, tmp_path / "bad")))


def weights_of(policy: PodPolicy, work: Compiled) -> np.ndarray:
    """What the policy weighs the demand of the work with."""
    assert isinstance(policy, RulePolicy) and policy.options.linear is not None
    return np.asarray(policy.options.linear.weights_for(work))


def shipped(name: str) -> PairWeights:
    """The weights of a checkpoint that comes with the package."""
    policy = make_policy(name)
    assert isinstance(policy, RulePolicy) and policy.options.linear is not None
    return policy.options.linear


def alike(work: Compiled) -> np.ndarray:
    """How alike what ships and what shipped before score pods of each kind: 1 where they rank nodes alike."""
    now, before = shipped("learned").weights_for(work), shipped("learned-linear").weights_for(work)
    lengths = np.linalg.norm(now, axis=1) * np.linalg.norm(before, axis=1)
    return np.asarray((now * before).sum(axis=1) / lengths)


def test_what_ships_decides_as_before_but_where_it_was_taught_what_gaps_are_worth(gpu_work: Compiled) -> None:
    others = np.array([kind != "shares_gpu" for kind in POD_KINDS])
    assert alike(gpu_work)[others] == pytest.approx(1.0, abs=1e-5)
    assert np.ptp(shipped("learned").gaps_for(gpu_work)) > 0.1
    assert "openb" in shipped("learned").note(gpu_work)


def test_what_ships_has_specialists_where_cpu_is_scarce_and_without_gpus(gpu_work: Compiled) -> None:
    crowded = replace(gpu_work, demand=replace(gpu_work.demand, cpu=round(1.45 * gpu_work.demand.cpu)))
    assert (alike(crowded) < 0.999).all() and "openb-mix/cpu300" in shipped("learned").note(crowded)
    assert (alike(PLAIN.load(0)) < 0.999).all() and "small" in shipped("learned").note(PLAIN.load(0))


@pytest.mark.parametrize(
    ("objective", "measure", "scenario"),
    [("pods_placed", "failures", parse_scenario("gpu@60", None)), ("cost", "cost", PLAIN)],
)
def test_what_ships_does_better_by_what_is_asked_of_it(
    objective: str, measure: str, scenario: PodScenario
) -> None:
    """Over seeds that nobody trained on; and it is one of the package's own wherever policies are named."""
    assert POLICIES.is_own(f"learned@{objective}")
    names = {"learned": 0.0, f"learned@{objective}": 0.0}
    for work in map(scenario.load, range(300, 306)):
        for name in names:
            names[name] += simulate(work, make_policy(name), scenario.options).measures[measure]
    assert names[f"learned@{objective}"] < names["learned"]


def test_what_ships_says_where_an_objective_means_nothing(gpu_work: Compiled) -> None:
    policies = {name: shipped(f"learned@{name}") for name in ("cost", "pods_placed")}
    assert "For cost there is no training on openb" in policies["cost"].note(gpu_work)
    assert "For pods_placed there is no training on small" in policies["pods_placed"].note(PLAIN.load(0))
    assert "no training" not in shipped("learned").note(PLAIN.load(0))
    usual = shipped("learned")
    assert (policies["pods_placed"].weights_for(PLAIN.load(0)) == usual.weights_for(PLAIN.load(0))).all()


@pytest.mark.parametrize("page", ["docs/training.md", "src/proreus/worlds/pods/policies/catalogue.py"])
def test_the_example_of_objectives_is_one_that_learned_knows(page: str) -> None:
    text = (Path(__file__).parents[3] / page).read_text()
    examples = re.findall(r"gpu_allocation=\d[\w=,]*", text)
    assert examples
    for example in examples:
        make_policy("learned", PolicyOptions(objective=example))
