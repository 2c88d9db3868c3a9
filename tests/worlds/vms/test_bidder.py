"""Networks that bid for virtual machines: the kernel agrees with torch, in single choices and whole runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("torch", reason="needs the extra learn")

import torch
from torch import Tensor, nn

from proreus.kernels.structs import pack
from proreus.model.errors import InputError
from proreus.policies.checkpoint import Card, Checkpoint, save_checkpoint
from proreus.policies.networks.bidder import BIDDERS, bidder_of, make_bids
from proreus.policies.networks.q_network import QNetwork
from proreus.policies.networks.row_networks import ActorCritic, QMIXNetwork
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.encoding.rows import VERSION, encode_servers
from proreus.worlds.vms.model import VmTrace
from proreus.worlds.vms.policies.bidder import SIZES
from proreus.worlds.vms.policies.catalogue import make_vm_policy, rule_policy
from proreus.worlds.vms.policies.columns import BIDDING
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.simulation.world import SCENARIOS, VmsWorld, compile_trace, with_servers
from proreus.worlds.vms.state.observation import VmObservation

KINDS = sorted(BIDDERS)


def network_of(kind: str, seed: int, hidden: int = 16) -> nn.Module:
    """One that has not learned anything, but bids differently for different places."""
    made: nn.Module
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        match kind:
            case "agents":
                made = QMIXNetwork(hidden, *SIZES)
            case "actor":
                made = ActorCritic(hidden, *SIZES)
                nn.init.normal_(made.logit.weight)
            case _:
                made = QNetwork(hidden, *SIZES)
    return made


def tensors_of(network: nn.Module) -> dict[str, Any]:
    """As a checkpoint holds them."""
    return {name: tensor.numpy().copy() for name, tensor in network.state_dict().items()}


@torch.no_grad()
def torch_bids(network: nn.Module, rows: Tensor, context: Tensor, legal: Tensor) -> Tensor:
    """[B, P] of the network as it was trained."""
    match network:
        case QMIXNetwork():
            return network.agents.bids(rows, context)
        case ActorCritic():
            logits: Tensor = network(rows, context, legal)[0]
            return logits
        case _:
            nothing_else = torch.zeros(len(rows), legal.shape[1] + 2, dtype=torch.bool)
            values: Tensor = network(rows, context, torch.cat((legal, nothing_else), 1))
            return values[:, : legal.shape[1]]


@settings(max_examples=60)
@given(st.sampled_from(KINDS), st.integers(0, 2**31), st.integers(1, 12))
def test_bids_are_those_of_the_network_but_for_a_constant(kind: str, seed: int, servers: int) -> None:
    network, random = network_of(kind, seed), np.random.default_rng(seed)
    rows = random.choice(np.array([0.0, 0.25, 0.5, 1.0], dtype=np.float32), (2 * servers, SIZES[0]))
    context = random.random(SIZES[1], dtype=np.float32)
    legal = random.random(2 * servers) < 0.6
    legal[random.integers(2 * servers)] = True
    bids = np.zeros(2 * servers, dtype=np.float32)
    make_bids(pack(bidder_of(kind, tensors_of(network), SIZES)), rows, context, legal.view(np.uint8), bids)
    wanted = torch_bids(network, *(torch.from_numpy(array)[None] for array in (rows, context, legal)))
    apart = (wanted[0].numpy() - bids)[legal]
    np.testing.assert_allclose(apart, apart[0], rtol=0, atol=2e-5)


def torch_choice(network: nn.Module, observation: VmObservation) -> tuple[int, float]:
    """(the place of the highest bid, how far the next one is behind), by the encoding that learners use."""
    size = (observation.servers.capacity[0, 0] / 2000.0).tolist()
    seen = (observation.obs[None], observation.feat[None], observation.avail[None])
    rows, context, legal = (torch.from_numpy(array) for array in encode_servers(*seen, tuple(size)))
    bids = torch_bids(network, rows, context, legal).masked_fill(~legal, -torch.inf)[0]
    ordered = bids.sort(descending=True).values
    return int(bids.argmax()), float(ordered[0] - ordered[1]) if len(ordered) > 1 else np.inf


@pytest.fixture(scope="module")
def trace() -> VmTrace:
    return generate_vms(400, 5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_policy_chooses_what_its_network_would_over_whole_runs(kind: str, trace: VmTrace) -> None:
    """One encoding: what plays sees what was learned from."""
    network = network_of(kind, 3)
    policy = VmRulePolicy(kind, BIDDING, bidder=bidder_of(kind, tensors_of(network), SIZES))
    options = replace(with_servers(SCENARIOS["rejecting"], 3), reward="placement")
    world = VmsWorld(compile_trace(trace, options.double), options)
    world.begin(0, 300)
    places = set()
    while (observation := world.next_decision()) is not None:
        chosen = policy.decide(observation)
        wanted, margin = torch_choice(network, observation)
        assert chosen == wanted or margin < 1e-5
        places.add(chosen)
        world.apply(chosen)
    assert len(places) > 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_plays_and_a_wrong_one_is_refused(kind: str, tmp_path: Path) -> None:
    tensors = tensors_of(network_of(kind, 1))
    card = Card(world="vms", kind=kind, algorithm="any", encoding=VERSION)
    save_checkpoint(tmp_path / "good/best", Checkpoint(card, tensors))
    policy = rule_policy(str(tmp_path / "good"))
    assert policy.kind == BIDDING and policy.bidder.take.size == 16
    deeper = BIDDERS[kind]["deeper"]
    broken = {
        "missing": {name: tensor for name, tensor in tensors.items() if name != BIDDERS[kind]["take"]},
        "shape": {**tensors, BIDDERS[kind]["whole"]: np.zeros((3, 3), dtype=np.float32)},
        "infinite": {**tensors, deeper: np.full_like(tensors[deeper], np.inf)},
    }
    for name, wrong in broken.items():
        save_checkpoint(tmp_path / name, Checkpoint(card, wrong))
        with pytest.raises(InputError, match="needs finite numbers of shape"):
            make_vm_policy(str(tmp_path / name))
    save_checkpoint(tmp_path / "old", Checkpoint(replace(card, encoding="servers-0"), tensors))
    with pytest.raises(InputError, match="made for encoding 'servers-0'"):
        make_vm_policy(str(tmp_path / "old"))
    save_checkpoint(tmp_path / "other", Checkpoint(replace(card, world="pods"), tensors))
    with pytest.raises(InputError, match="cannot play in the vms world"):
        make_vm_policy(str(tmp_path / "other"))
