"""Experts of the world `vms`: the nearest decides, a cluster unlike all of theirs is left to a rule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from proreus.cli.main import main
from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import Card, Checkpoint, load_checkpoint, save_checkpoint
from proreus.worlds.vms.encoding.figures import CROWDED, FIGURES, Stage, cluster_figures
from proreus.worlds.vms.encoding.place import FEATURES, VERSION
from proreus.worlds.vms.model import ServerShape
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.adaptive import (
    EASY_AFTER_A_THOUSAND,
    LOADED_FROM,
    ROOMY_UP_TO,
    AdaptiveVmPolicy,
    by_load,
    first_fit_while_easy,
)
from proreus.worlds.vms.policies.catalogue import make_vm_policy
from proreus.worlds.vms.policies.columns import EASY, FIRST_FIT, LEARNED, SO_FAR_FULL, WORST_FIT
from proreus.worlds.vms.policies.experts import VmExperts, VmScorer
from proreus.worlds.vms.policies.policy import Below, VmRulePolicy
from proreus.worlds.vms.policies.rules import AT_FIRST, EASY_FULL_UP_TO, FORGETS, FULL_FROM, RARELY
from proreus.worlds.vms.simulation.runs import VmRuns, VmSimulation, planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS, VmsOptions, VmsWorld, with_servers
from proreus.worlds.vms.state.servers import capacity_of
from proreus.worlds.vms.training.combine import combine
from proreus.worlds.vms.training.training_trace import TrainingTrace

TRACE = TrainingTrace(machines=3_000, seed=11)
WEIGHTS = np.random.default_rng(5).normal(size=(2, len(FEATURES)))
SCORERS = tuple(VmScorer(LEARNED, weights) for weights in WEIGHTS)


def figures(options: VmsOptions) -> np.typing.NDArray[np.float64]:
    return cluster_figures(options.treatment, capacity_of(options.shapes))


def adaptive() -> AdaptiveVmPolicy:
    """An expert for machines that wait, and one for machines that are turned away."""
    stands = np.array([figures(SCENARIOS[name]) for name in ("waiting", "rejecting")])
    return AdaptiveVmPolicy("both", VmExperts(("waiting", "rejecting"), stands, SCORERS))


def runs_of(options: VmsOptions) -> VmRuns:
    return planned_runs(TRACE.work(options.double), options, np.arange(0, 1_500, 500), 300)


@pytest.mark.parametrize(
    ("scenario", "expert"),
    [("waiting", 0), ("rejecting", 1), ("recovering", 0), ("fading", 0), ("expansion", 0)],
)
def test_the_nearest_expert_decides_at_any_size(scenario: str, expert: int) -> None:
    for servers in (2, 20):
        options = with_servers(SCENARIOS[scenario], servers)
        settled = adaptive().under(options.treatment, capacity_of(options.shapes))
        assert settled.kind == LEARNED and (settled.weights == WEIGHTS[expert]).all()


@pytest.mark.parametrize(("scenario", "rule"), [("waiting", FIRST_FIT), ("rejecting", WORST_FIT)])
def test_servers_unlike_all_are_left_to_a_rule(scenario: str, rule: int) -> None:
    options = replace(SCENARIOS[scenario], servers=(ServerShape(5, 8.0, 128.0),))
    assert adaptive().under(options.treatment, capacity_of(options.shapes)).kind == rule


def test_where_machines_are_turned_away_three_take_turns() -> None:
    options = with_servers(SCENARIOS["rejecting"], 2)
    capacity = capacity_of(options.shapes)
    weights = np.random.default_rng(6).normal(size=(3, len(FEATURES)))
    names = ("crowded one", "roomy one", "calm one")
    stands = np.array(
        [
            cluster_figures(options.treatment, capacity, "crowded"),
            figures(SCENARIOS["recovering"]),
            cluster_figures(options.treatment, capacity, "calm"),
        ]
    )
    policy = AdaptiveVmPolicy(
        "three", VmExperts(names, stands, tuple(VmScorer(LEARNED, weight) for weight in weights))
    )
    alone = [VmRulePolicy(name, LEARNED, weights=weight) for name, weight in zip(names, weights, strict=True)]
    simulation, draw = VmSimulation(runs_of(options)), np.random.default_rng(1)
    settled, lately, decided = None, AT_FIRST, dict.fromkeys(names, 0)
    while (observation := simulation.next_decision()) is not None:
        if settled is not None:
            lately = float(draw.random()) ** 3
            settled.rule.lately[0] = lately
        used = float((1.0 - observation.servers.free[0].sum(axis=(0, 1)) / capacity.sum(axis=(0, 1))).max())
        lately = AT_FIRST if used == 0.0 else lately + FORGETS * ((used > FULL_FROM) - lately)
        expected = 0 if lately > LOADED_FROM else 1 if used <= ROOMY_UP_TO and lately <= RARELY else 2
        assert names[expected] in policy.explain(observation).note
        place = policy.decide(observation)
        settled = policy.settled(observation)
        assert settled.rule.lately[0] == pytest.approx(lately)
        assert place == alone[expected].decide(observation)
        decided[names[expected]] += 1
        simulation.apply(place)
    assert min(decided.values()) > 10


@pytest.mark.parametrize("servers", [2, 60])
def test_first_fit_decides_for_as_long_as_an_empty_cluster_fills_slowly(servers: int) -> None:
    options = with_servers(SCENARIOS["rejecting"], servers)
    capacity = capacity_of(options.shapes)
    base = adaptive()
    policy = replace(base, experts=replace(base.experts, packs_while_easy=True))
    simulation, first_fit = VmSimulation(runs_of(options)), VmRulePolicy("first fit", FIRST_FIT)
    placed, full, easy, decided = 0, 0.0, False, {True: 0, False: 0}
    while (observation := simulation.next_decision()) is not None:
        used = float((1.0 - observation.servers.free[0].sum(axis=(0, 1)) / capacity.sum(axis=(0, 1))).max())
        if used == 0.0:
            placed, full, easy = 0, 0.0, True
        else:
            placed, full = placed + 1, full + FORGETS * ((used > FULL_FROM) - full)
            slowly = used <= EASY_AFTER_A_THOUSAND * (placed / 1000.0) ** 0.5
            easy = easy and slowly and full <= EASY_FULL_UP_TO
        assert ("first fit decides" in policy.explain(observation).note) == easy
        place = policy.decide(observation)
        if easy:
            assert place == first_fit.decide(observation)
        decided[easy] += 1
        simulation.apply(place)
    assert decided[servers == 60] > 500, "two servers are crowded soon, sixty never"
    assert decided[True] > 0


def test_a_cluster_that_was_not_seen_from_its_beginning_is_not_easy() -> None:
    easy = replace(
        by_load(VmRulePolicy("a", WORST_FIT), VmRulePolicy("b", WORST_FIT)), easy=first_fit_while_easy()
    )
    simulation = VmSimulation(runs_of(with_servers(SCENARIOS["rejecting"], 60)))
    seen = []
    for _ in range(3):
        observation = simulation.next_decision()
        assert observation is not None
        late = easy.fresh(0)
        late.decide(observation)
        seen.append(int(late.rule.now[0]) == EASY)
        simulation.apply(easy.decide(observation))
    assert seen == [True, False, False]


def test_a_cluster_that_was_full_time_and_again_is_not_easy() -> None:
    rule = VmRulePolicy("a", WORST_FIT)
    easy = replace(by_load(rule, rule), easy=replace(first_fit_while_easy(), share=1e9))
    simulation = VmSimulation(runs_of(with_servers(SCENARIOS["rejecting"], 60)))
    decided = []
    for full in (0.0, EASY_FULL_UP_TO / 2, 2 * EASY_FULL_UP_TO, 0.0):
        observation = simulation.next_decision()
        assert observation is not None
        easy.rule.lately[SO_FAR_FULL] = full
        place = easy.decide(observation)
        decided.append(int(easy.rule.now[0]) == EASY)
        simulation.apply(place)
    assert decided == [True, True, False, False], "what is over does not come back"


def test_without_an_expert_worst_fit_decides_unless_there_is_room() -> None:
    vm_policy = AdaptiveVmPolicy(
        "one", VmExperts(("waiting",), figures(SCENARIOS["waiting"])[None], SCORERS[:1])
    )
    options = with_servers(SCENARIOS["rejecting"], 2)
    settled = vm_policy.under(options.treatment, capacity_of(options.shapes))
    assert settled.kind == WORST_FIT and settled.calm is not None and settled.roomy is not None
    assert settled.calm.kind == WORST_FIT and settled.roomy.kind == LEARNED


@pytest.mark.parametrize("stage", ["calm", "crowded"])
def test_a_run_for_one_stage_says_so_when_it_is_combined(stage: Stage, tmp_path: Path) -> None:
    card = Card(
        world="vms",
        kind="linear",
        algorithm="es",
        encoding=VERSION,
        trained_on=("rejecting",),
        config={"stage": stage},
    )
    save_checkpoint(tmp_path / "one", Checkpoint(card, {"weights": WEIGHTS[0]}))
    checkpoint = combine([str(tmp_path / "one")])
    assert checkpoint.card.config["experts"] == [f"rejecting, {stage}"]
    assert checkpoint.tensors["stands"][0, FIGURES.index("crowded")] == CROWDED[stage]
    save_checkpoint(
        tmp_path / "odd", Checkpoint(replace(card, config={"stage": "odd"}), {"weights": WEIGHTS[0]})
    )
    with pytest.raises(InputError, match=r"'odd' is none of both, calm, crowded"):
        combine([str(tmp_path / "odd")])


@pytest.mark.parametrize("scenario", sorted(SCENARIOS))
def test_asked_call_by_call_it_decides_as_inside_the_kernel(scenario: str) -> None:
    runs = runs_of(with_servers(SCENARIOS[scenario], 2))
    simulation, policy = VmSimulation(runs), adaptive()
    while (observation := simulation.next_decision()) is not None:
        simulation.apply(policy.decide(observation))
    assert tuple(simulation.ended) == play_runs(runs, adaptive())[0]


def test_one_policy_may_be_asked_for_several_clusters() -> None:
    policy = adaptive()
    for shape in (ServerShape(3), ServerShape(3, 8.0, 128.0)):
        options = replace(SCENARIOS["waiting"], servers=(shape,))
        world = VmsWorld(TRACE.work(options.double), options)
        world.begin()
        observation = world.next_decision()
        assert observation is not None
        settled = policy.under(options.treatment, capacity_of(options.shapes))
        assert policy.decide(observation) == settled.decide(observation)
        known = "like waiting" if shape.cpu == 40.0 else "unlike anything that was trained on: first fit"
        assert known in policy.explain(observation).note


def saved(folder: Path, weights: np.typing.NDArray[np.float64], trained_on: str) -> str:
    card = Card(world="vms", kind="linear", algorithm="es", encoding=VERSION, trained_on=(trained_on,))
    save_checkpoint(folder, Checkpoint(card, {"weights": weights}))
    return str(folder)


def test_combined_checkpoints_play_as_each_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    waiting = saved(tmp_path / "w", WEIGHTS[0], "huawei/waiting@7")
    rejecting = saved(tmp_path / "r", WEIGHTS[1], "rejecting")
    single, both = str(tmp_path / "one"), str(tmp_path / "both")
    assert main(["combine", "vms", waiting, "--out", single]) == 0
    assert main(["combine", "vms", single, rejecting, "--out", both]) == 0
    assert "expert: rejecting" in capsys.readouterr().out
    assert load_checkpoint(tmp_path / "both", VERSION).tensors["stands"].shape == (2, len(FIGURES))
    for scenario, weights in (("waiting", WEIGHTS[0]), ("rejecting", WEIGHTS[1])):
        runs = runs_of(with_servers(SCENARIOS[scenario], 2))
        alone = VmRulePolicy("alone", LEARNED, weights=weights)
        if scenario == "rejecting":
            roomy = Below(LEARNED, WEIGHTS[0], ROOMY_UP_TO)
            alone = replace(by_load(alone, alone), roomy=roomy, easy=first_fit_while_easy())
        assert play_runs(runs, make_vm_policy(both))[0] == play_runs(runs, alone)[0]
    # A later expert for the same clusters takes the place of the one before.
    assert combine([both, saved(tmp_path / "n", WEIGHTS[0], "rejecting@5")]).card.config["experts"] == [
        "huawei/waiting@7",
        "rejecting@5",
    ]


def test_what_is_no_expert_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="neither a checkpoint nor a training run"):
        combine([str(tmp_path)])
    with pytest.raises(UsageError, match="is not known"):
        combine([saved(tmp_path / "x", WEIGHTS[0], "my own")])
    card = Card(world="vms", kind="actor", algorithm="ppo", encoding=VERSION)
    save_checkpoint(tmp_path / "ppo", Checkpoint(card, {"weights": WEIGHTS[0]}))
    with pytest.raises(UsageError, match="runs of es are"):
        combine([str(tmp_path / "ppo")])
    empty = Card(world="vms", kind="adaptive", algorithm="experts", encoding=VERSION)
    save_checkpoint(tmp_path / "empty", Checkpoint(empty, {"weights": WEIGHTS}))
    with pytest.raises(InputError, match="list of names"):
        make_vm_policy(str(tmp_path / "empty"))
    named = replace(empty, config={"experts": ["waiting"]})
    save_checkpoint(tmp_path / "short", Checkpoint(named, {"weights": WEIGHTS}))
    with pytest.raises(InputError, match="finite numbers"):
        make_vm_policy(str(tmp_path / "short"))
    odd = replace(named, config={"experts": ["waiting"], "packs_while_easy": "yes"})
    tensors = {"stands": figures(SCENARIOS["waiting"])[None], "weights": WEIGHTS[:1]}
    save_checkpoint(tmp_path / "odd", Checkpoint(odd, tensors))
    with pytest.raises(InputError, match="true or false"):
        make_vm_policy(str(tmp_path / "odd"))
