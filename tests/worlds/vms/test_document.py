"""VMAgent's notes by their own text: the controller, its selector, the schedule and the loop of an epoch.

What stands in strings is copied from the notes as it is.
"""

from __future__ import annotations

import textwrap
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra learn")
pytest.importorskip("gymnasium", reason="needs the extra learn")

import gymnasium
import torch

from proreus.envs import SchedEnv
from proreus.learning.optimiser import linear_decay
from proreus.learning.qmix import QMIXConfig, qmix
from proreus.model.errors import UsageError
from proreus.policies.networks.row_networks import QMIXNetwork
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.document import QmixAgent, SchedEnvs, VectorMAC, action_REGISTRY
from proreus.worlds.vms.policies.bidder import SIZES
from tests.worlds.vms.server_cases import packing_servers

IMPORTS = "from proreus.envs import DeployEnv, QmixAgent, SchedEnv, VectorMAC, action_REGISTRY, linear_decay"
ARGS = SimpleNamespace(N=5, cpu=40, mem=90)
CONTROLLER = """
class NotesMAC(VectorMAC):
    def __init__(self, args):
        self.args = args
        server_num, cpu_num, mem_num = args.N, args.cpu, args.mem
        action_space = server_num*2
        obs_space = [(server_num, 2, 2), (1, 2, 2)]
        self._build_agents(obs_space, action_space, args)

        self.action_selector = action_REGISTRY['epsilon_greedy'](args)
"""
SCHEDULE = """
for x in range(MaxEpoch):
  eps = linear_decay(x, [0, int(
            MAX_EPOCH * 0.25),  int(MAX_EPOCH * 0.9), MAX_EPOCH], [0.9, 0.5, 0.2, 0.2])
  said.append(eps)
"""
STEP = """
avail = envs.get_attr('avail')
feat = envs.get_attr('req')
obs = envs.get_attr('obs')
state = {'obs': obs, 'feat': feat, 'avail': avail}
action = mac.select_actions(state, eps)
"""
REQUEST = """
if request['is_double'] == 1:
  request_info = [[[request['cpu']/2, request['mem']/2] for i in range(2)] for j in range(2)]
else:
  request_info =[[[request['cpu'], request['mem']], [0,0]], [[0,0], [request['cpu'], request['mem']]]]
"""


def run(text: str, **names: Any) -> dict[str, Any]:
    """What the text leaves behind."""
    exec(textwrap.dedent(text), names)
    return names


def many(count: int = 4) -> SchedEnvs:
    settings: dict[str, Any] = {"trace": generate_vms(3_000, seed=1), "servers": ARGS.N, "limit": 40}
    return SchedEnvs([SchedEnv("recovering", rows="events", **settings) for _ in range(count)])


def state_of(side_by_side: SchedEnvs) -> dict[str, Any]:
    return {
        name: side_by_side.get_attr(place)
        for name, place in (("obs", "obs"), ("feat", "req"), ("avail", "avail"))
    }


def test_the_class_of_the_notes_runs_as_it_is_written() -> None:
    made = run(f"{IMPORTS}\n{CONTROLLER}")["NotesMAC"](ARGS)
    assert isinstance(made, VectorMAC)
    side_by_side = many()
    side_by_side.reset([0, 50, 100, 150])
    action = run(STEP, envs=side_by_side, mac=made, eps=0.5)["action"]
    assert action.shape == (4,) and side_by_side.get_attr("avail")[np.arange(4), action].all()
    np.testing.assert_array_equal(
        made.select_actions(state_of(side_by_side), 0.0),
        VectorMAC(ARGS).select_actions(state_of(side_by_side), 0.0),
    )


def test_an_epoch_of_the_notes_is_played_to_its_end() -> None:
    side_by_side, mac = many(), VectorMAC(ARGS)
    side_by_side.reset([3, 60, 111, 200])
    placed, over = np.zeros(4), np.zeros(4, dtype=bool)
    for _ in range(40):
        action = run(STEP, envs=side_by_side, mac=mac, eps=0.2)["action"]
        carried, state, reward, done = side_by_side.step(action)
        np.testing.assert_array_equal(carried[~over], action[~over])
        assert (carried[over] == -1).all() and state.shape == (4, 5, 2, 2)
        placed += reward
        over = done
        if done.all():
            break
    assert over.all() and (placed > 20).all()
    assert side_by_side.step(np.zeros(4, dtype=np.int64))[0].tolist() == [-1] * 4


def test_a_start_is_the_first_creation_from_its_row_on() -> None:
    side_by_side, events = many(1), many(1).envs[0].trace.events
    deletion = int(np.flatnonzero(events < 0)[0])
    creation = deletion + int(np.argmax(events[deletion:] >= 0))
    side_by_side.reset([deletion])
    assert side_by_side.get_attr("start").tolist() == side_by_side.get_attr("t").tolist() == [creation]
    side_by_side.step([-1])
    later = creation + 1 + int(np.argmax(events[creation + 1 :] >= 0))
    assert side_by_side.get_attr("t").tolist() == [later]
    assert side_by_side.get_attr("start").tolist() == [creation]


def test_the_request_is_the_matrix_of_the_notes() -> None:
    env = many(1).envs[0]
    seen = set()
    for row in range(0, 400, 7):
        env.reset(row)
        machine = env.trace.events[env.t]
        cpu, mem = float(env.trace.cpu[machine]), float(env.trace.mem[machine])
        double = bool(env.req[0, 1].any())
        seen.add(double)
        request = {"cpu": cpu, "mem": mem, "is_double": int(double)}
        np.testing.assert_allclose(env.req, run(REQUEST, request=request)["request_info"])
    assert seen == {False, True}


@pytest.mark.parametrize("double", [False, True])
def test_a_request_of_the_space_of_the_notes_is_that_of_the_first_choice(double: bool) -> None:
    mac = VectorMAC(ARGS)
    assert mac.obs_space == [(5, 2, 2), (1, 2, 2)] and mac.action_space == 10
    obs = np.random.default_rng(0).uniform(10, 40, (3, 5, 2, 2))
    request = {"cpu": 4.0, "mem": 8.0, "is_double": int(double)}
    whole = np.tile(np.array(run(REQUEST, request=request)["request_info"]), (3, 1, 1, 1))
    avail = np.ones((3, 5, 2))
    first = mac.forward({"obs": obs, "feat": whole[:, :1], "avail": avail})[0]
    assert torch.equal(first, mac.forward({"obs": obs, "feat": whole, "avail": avail})[0])


def test_epsilon_follows_the_line_of_the_notes() -> None:
    said: list[float] = []
    assert run(IMPORTS)["linear_decay"] is linear_decay
    run(f"{IMPORTS}\n{SCHEDULE}", MaxEpoch=101, MAX_EPOCH=100, said=said)
    assert (said[0], said[25], said[90], said[100]) == (0.9, 0.5, 0.2, 0.2)
    assert said[10] == pytest.approx(0.9 - 0.4 * 10 / 25) and said[50] == pytest.approx(0.5 - 0.3 * 25 / 65)


def test_the_selector_explores_by_eps_and_not_in_test_mode() -> None:
    selector = action_REGISTRY["epsilon_greedy"](SimpleNamespace(seed=3))
    values = torch.tensor([[3.0, 2.0, 9.0]]).repeat(400, 1)
    legal = torch.tensor([[1.0, 1.0, 0.0]]).repeat(400, 1)
    assert (selector.select_action(values, 0.0, legal, 0) == 0).all()
    share = float((selector.select_action(values, 0.5, legal, 0) == 1).double().mean())
    assert 0.15 < share < 0.35
    assert (selector.select_action(values, 1.0, legal, 1) == 0).all()


def test_the_agent_takes_observation_and_request_as_the_notes_hand_them_in() -> None:
    agent = QmixAgent([(5, 2, 2), (1, 2, 2)], 10, ARGS)
    outs = agent([torch.rand(2, 5, 2, 2) * 40, torch.ones(2, 1, 2, 2)])
    assert outs.shape == (2, 10) and outs.requires_grad
    with pytest.raises(UsageError, match="10 choices"):
        QmixAgent([(5, 2, 2), (1, 2, 2)], 5, ARGS)


def test_trained_agents_decide_behind_it() -> None:
    *_, last = qmix(QMIXConfig(steps=1_000, capacity=2_000, chunk=32, seed=5), packing_servers(4))
    network = QMIXNetwork(64, *SIZES)
    network.load_state_dict({name: torch.from_numpy(array) for name, array in last.tensors().items()})
    side_by_side = many(2)
    side_by_side.reset([0, 9])
    drawn, trained = VectorMAC(ARGS), VectorMAC(ARGS, network.agents)
    assert not torch.equal(
        drawn.forward(state_of(side_by_side))[0], trained.forward(state_of(side_by_side))[0]
    )


def test_the_same_controller_moves_pods_in_deploy_env() -> None:
    rows: Any = gymnasium.make_vec("proreus/Rebalance-v0", num_envs=2, scenario="serial@3", horizon=2, pool=1)
    observations, _ = rows.reset(seed=1)
    mac, total = VectorMAC.of(rows, seed=1), np.zeros(2)
    for _ in range(12):
        action = mac.select_actions(observations, 0.5)
        assert rows.action_masks()[np.arange(2), action].all()
        observations, reward, *_ = rows.step(action)
        total += reward
    assert (total < 0).all()


def test_what_is_missing_or_of_another_shape_is_named() -> None:
    with pytest.raises(UsageError, match=r"args\.mem"):
        VectorMAC(SimpleNamespace(N=3, cpu=4))
    with pytest.raises(UsageError, match="isDelta"):
        VectorMAC(ARGS).forward({}, True)
    with pytest.raises(UsageError, match="2 of them for 4"):
        many().reset([0, 1])
