"""The scorer of gaps: its features are those of plain Python, its start is worst fit, checkpoints keep it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.cli.main import main
from proreus.kernels.arrays import F64
from proreus.model.errors import InputError
from proreus.policies.checkpoint import Card, Checkpoint, load_checkpoint, save_checkpoint
from proreus.worlds.vms.encoding.gaps import GAP_FEATURES, GAP_VERSION, encode_gaps
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.adaptive import AdaptiveVmPolicy
from proreus.worlds.vms.policies.catalogue import make_vm_policy, rule_policy
from proreus.worlds.vms.policies.columns import GAPS, LEARNED
from proreus.worlds.vms.policies.experts import ADAPTIVE_VERSIONS
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.simulation.runs import VmRuns, VmSimulation, planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS, with_servers
from proreus.worlds.vms.state.observation import VmObservation
from proreus.worlds.vms.state.servers import capacity_of
from proreus.worlds.vms.training.goal import start_of
from proreus.worlds.vms.training.training_trace import TrainingTrace
from tests.oracles.vm_gaps import plain_gaps
from tests.worlds.vms.strategies import Case, cases
from tests.worlds.vms.test_rules import check_it_follows_servers, observations

TRACE = TrainingTrace(machines=3_000, seed=11)
OPTIONS = with_servers(SCENARIOS["rejecting"], 2)
WEIGHTS = np.random.default_rng(7).normal(size=len(GAP_FEATURES))


def scorer(weights: F64) -> VmRulePolicy:
    return VmRulePolicy("gaps", GAPS, weights=weights)


def runs() -> VmRuns:
    return planned_runs(TRACE.work(OPTIONS.double), OPTIONS, np.arange(0, 1_500, 500), 400)


def encoded(observation: VmObservation, place: int) -> F64:
    servers, flavours = observation.servers, observation.flavours
    return encode_gaps(servers, flavours, observation.lane, observation.flavour, place)


@settings(max_examples=100)
@given(cases())
def test_features_are_those_of_plain_python(case: Case) -> None:
    for observation in observations(case)[-1:]:
        for place in np.flatnonzero(observation.avail).tolist():
            np.testing.assert_allclose(
                encoded(observation, place), plain_gaps(observation, place), rtol=1e-6, atol=1e-6
            )


@settings(max_examples=60)
@given(cases(), st.integers(0, 2**32 - 1))
def test_the_highest_of_all_places_wins(case: Case, seed: int) -> None:
    weights = np.random.default_rng(seed).normal(size=len(GAP_FEATURES))
    for observation in observations(case)[-1:]:
        scores = {
            place: float(encoded(observation, place) @ weights)
            for place in np.flatnonzero(observation.avail).tolist()
        }
        chosen = scorer(weights).decide(observation)
        assert scores[chosen] == pytest.approx(max(scores.values()), abs=1e-7)
        explained = scorer(weights).explain(observation)
        for place, score in scores.items():
            assert explained.verdicts[place].total == pytest.approx(score, abs=1e-7)


@settings(max_examples=60)
@given(cases(), st.integers(0, 2**32 - 1))
def test_it_follows_servers_that_change_places(case: Case, seed: int) -> None:
    draw = np.random.default_rng(seed)
    check_it_follows_servers(scorer(draw.normal(size=len(GAP_FEATURES))), case, draw)


def test_a_search_begins_at_worst_fit_or_first_fit() -> None:
    for full, rule in (("reject", "worst_fit"), ("wait", "first_fit")):
        start = scorer(start_of(full, "gaps"))  # type: ignore[arg-type]
        assert play_runs(runs(), start)[0] == play_runs(runs(), rule_policy(rule))[0]


def saved(folder: Path, **config: object) -> str:
    card = Card(
        world="vms",
        kind="gaps",
        algorithm="es",
        encoding=GAP_VERSION,
        trained_on=("rejecting",),
        config=dict(config),
    )
    save_checkpoint(folder, Checkpoint(card, {"weights": WEIGHTS}))
    return str(folder)


def test_a_checkpoint_of_gaps_plays_and_a_wrong_one_is_refused(tmp_path: Path) -> None:
    alone = saved(tmp_path / "alone")
    assert play_runs(runs(), make_vm_policy(alone))[0] == play_runs(runs(), scorer(WEIGHTS))[0]
    checkpoint = load_checkpoint(tmp_path / "alone", GAP_VERSION)
    save_checkpoint(tmp_path / "flat", replace(checkpoint, tensors={"weights": WEIGHTS[None]}))
    with pytest.raises(InputError, match=r"weights.*finite numbers of shape \(23,\)"):
        make_vm_policy(str(tmp_path / "flat"))


def test_experts_of_places_and_of_gaps_stand_beside_each_other(tmp_path: Path) -> None:
    both = str(tmp_path / "both")
    assert main(["combine", "vms", "learned", saved(tmp_path / "alone"), "--out", both]) == 0
    policy, shipped = make_vm_policy(both), make_vm_policy("learned")
    assert isinstance(policy, AdaptiveVmPolicy) and isinstance(shipped, AdaptiveVmPolicy)
    for name, kind in (("waiting", LEARNED), ("fading", LEARNED), ("rejecting", GAPS)):
        options = with_servers(SCENARIOS[name], 3)
        settled, was = (
            vm_policy.under(options.treatment, capacity_of(options.shapes)) for vm_policy in (policy, shipped)
        )
        assert settled.kind == kind
        if name != "rejecting":
            assert settled.weights.tolist() == was.weights.tolist()
    simulation = VmSimulation(runs())
    while (observation := simulation.next_decision()) is not None:
        simulation.apply(policy.decide(observation))
    assert tuple(simulation.ended) == play_runs(runs(), policy)[0]
    kept = load_checkpoint(tmp_path / "both", ADAPTIVE_VERSIONS["adaptive-gaps"])
    wrong = replace(kept, card=replace(kept.card, config={**kept.card.config, "weighs": ["gaps"]}))
    save_checkpoint(tmp_path / "wrong", wrong)
    with pytest.raises(InputError, match=r"config.weighs: says of every expert"):
        make_vm_policy(str(tmp_path / "wrong"))
