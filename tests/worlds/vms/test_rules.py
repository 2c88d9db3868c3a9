"""Every rule for virtual machines chooses as its plain Python twin; the scorer is fair to servers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proreus.kernels.arrays import F64
from proreus.model.errors import InputError, UsageError
from proreus.policies.checkpoint import Card, Checkpoint, save_checkpoint
from proreus.worlds.vms.encoding.place import FEATURES, VERSION, encode_place
from proreus.worlds.vms.policies.catalogue import VM_POLICIES, make_vm_policy, rule_policy
from proreus.worlds.vms.policies.columns import LEARNED
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.simulation.world import VmsOptions, VmsWorld, compile_trace
from proreus.worlds.vms.state.observation import VmObservation
from proreus.worlds.vms.state.servers import refresh
from tests.oracles.vm_rules import RULES, PlainLook, features
from tests.worlds.vms.strategies import Case, cases, make_trace


def observations(case: Case) -> list[VmObservation]:
    """Some moments of a run of the case; only the last is still as it was."""
    world = VmsWorld(compile_trace(case.trace, case.options.double), case.options)
    world.begin(case.start, case.limit)
    observations = []
    step = 0
    while (observation := world.next_decision()) is not None:
        observations.append(observation)
        if step == case.choices[0] % 12:
            break
        world.apply(case.choice(step, observation.avail.tolist()))
        step += 1
    return observations if world.next_decision() is not None else []


def encoded(observation: VmObservation, place: int) -> F64:
    return encode_place(
        observation.servers, observation.flavours, observation.lane, observation.flavour, place
    )


@settings(max_examples=150)
@given(cases(), st.sampled_from(sorted(RULES)))
def test_a_rule_chooses_as_its_plain_twin(case: Case, name: str) -> None:
    for observation in observations(case)[-1:]:
        assert make_vm_policy(name).decide(observation) == RULES[name](PlainLook(observation))


@settings(max_examples=150)
@given(cases())
def test_features_are_those_of_plain_python(case: Case) -> None:
    for observation in observations(case)[-1:]:
        look = PlainLook(observation)
        for place in look.legal:
            np.testing.assert_allclose(
                encoded(observation, place), features(look, place), rtol=1e-5, atol=1e-6
            )


def check_it_follows_servers(policy: VmRulePolicy, case: Case, draw: np.random.Generator) -> None:
    """Wherever servers stand, one in the same state is chosen; of several such the first."""
    for observation in observations(case)[-1:]:
        servers = observation.servers
        count = servers.capacity.shape[0]
        chosen = policy.decide(observation) // 2
        state = (servers.capacity[chosen].tolist(), servers.free[0, chosen].tolist())
        order = draw.permutation(count)
        servers.capacity[:] = servers.capacity[order]
        servers.free[0] = servers.free[0, order]
        for server in range(count):
            refresh(servers, observation.flavours, 0, server)
        again = policy.decide(observation) // 2
        assert (servers.capacity[again].tolist(), servers.free[0, again].tolist()) == state


@settings(max_examples=60)
@given(cases(), st.integers(0, 2**32 - 1))
def test_the_scorer_follows_servers_that_change_places(case: Case, seed: int) -> None:
    draw = np.random.default_rng(seed)
    scorer = VmRulePolicy("scorer", LEARNED, weights=draw.normal(size=len(FEATURES)))
    check_it_follows_servers(scorer, case, draw)


def test_random_takes_every_place_that_fits() -> None:
    options = VmsOptions()
    world = VmsWorld(compile_trace(make_trace([(1.0, 1.0, 0, 1.0)] * 3), options.double), options)
    world.begin()
    observation = world.next_decision()
    assert observation is not None
    policy = make_vm_policy("random", 3)
    assert {policy.decide(observation) for _ in range(200)} == set(np.flatnonzero(observation.avail).tolist())


def test_checkpoints_play_and_wrong_ones_are_refused(tmp_path: Path) -> None:
    weights = np.arange(len(FEATURES), dtype=np.float64)
    card = Card(world="vms", kind="linear", algorithm="es", encoding=VERSION)
    save_checkpoint(tmp_path / "good", Checkpoint(card, {"weights": weights}))
    assert rule_policy(str(tmp_path / "good")).weights.tolist() == weights.tolist()
    save_checkpoint(tmp_path / "short", Checkpoint(card, {"weights": weights[:3]}))
    with pytest.raises(InputError, match="finite numbers"):
        make_vm_policy(str(tmp_path / "short"))
    other = Card(world="pods", kind="linear", algorithm="es", encoding=VERSION)
    save_checkpoint(tmp_path / "pods", Checkpoint(other, {"weights": weights}))
    with pytest.raises(InputError, match="cannot play in the vms world"):
        make_vm_policy(str(tmp_path / "pods"))
    old = Card(world="vms", kind="linear", algorithm="es", encoding="vms-0")
    save_checkpoint(tmp_path / "old", Checkpoint(old, {"weights": weights}))
    with pytest.raises(InputError, match="made for encoding 'vms-0'"):
        make_vm_policy(str(tmp_path / "old"))
    with pytest.raises(UsageError, match="did you mean 'best_fit'"):
        make_vm_policy("best_fitt")
    assert {"first_fit", "best_fit", "worst_fit", "balance_fit", "random"} <= set(VM_POLICIES.names)


@settings(max_examples=60)
@given(cases(), st.integers(0, 2**32 - 1))
def test_the_scorer_takes_the_highest_of_all_places(case: Case, seed: int) -> None:
    weights = np.random.default_rng(seed).normal(size=len(FEATURES))
    scorer = VmRulePolicy("scorer", LEARNED, weights=weights)
    for observation in observations(case)[-1:]:
        look = PlainLook(observation)
        scores = {place: float(encoded(observation, place) @ weights) for place in look.legal}
        chosen = scorer.decide(observation)
        assert scores[chosen] == pytest.approx(max(scores.values()), abs=1e-9)
        equals = [place for place, score in scores.items() if score > max(scores.values()) - 1e-12]
        assert chosen == equals[0]
