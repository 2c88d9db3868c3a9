"""The Gymnasium environments: their spaces, first observations and rewards, by default and as told."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="environments need the extra `learn`")

import gymnasium

import proreus.envs
from tests.surface.pinning import Closeness, assert_pinned

STEPS = 5
NEAR = Closeness(1e-6, 1e-9)
"""Observations are single precision."""


@dataclass(frozen=True)
class Making:
    """An environment and the keywords that it is made with."""

    name: str
    id: str
    keywords: dict[str, Any] = field(default_factory=dict)


PODS, VMS, REBALANCE = "proreus/Pods-v0", "proreus/VirtualMachines-v0", "proreus/Rebalance-v0"
# Between them every keyword of every environment is given a value of its own.
MAKINGS = (
    Making("pods", PODS),
    Making(
        "pods-told",
        PODS,
        {
            **{"scenario": "gpu", "generator": {"nodes": 7}, "work_conserving": True, "illegal": "delay"},
            **{"seed": 4, "render_mode": "ansi", "world": None, "reward": "allocation"},
        },
    ),
    Making("pods-document000", PODS, {"encoding": "document000", "reward": "completion", "seed": 1}),
    Making("vms", VMS),
    Making(
        "vms-told",
        VMS,
        {
            **{"scenario": "waiting", "servers": 3, "double": "cpu>10", "allow_release": True, "limit": 40},
            **{"reward": "wait", "illegal": "first_fit", "rows": "events", "part": "valid", "seed": 4},
            **{"render_mode": "ansi", "trace": None},
        },
    ),
    Making("vms-mixed", VMS, {"shapes": "2x40/90+1x64/256", "full": "reject", "reward": "cpu"}),
    Making("rebalance", REBALANCE),
    Making(
        "rebalance-told",
        REBALANCE,
        {
            **{"scenario": "parallel", "horizon": 6, "part": "valid", "illegal": "stop", "budget": 2},
            **{"group": 3, "threshold": 0.7, "low": 0.1, "sharing": "smallest_first", "max_pods": 40},
            **{"generator": {"pods": 12, "nodes": 4}, "seed": 4, "render_mode": "ansi"},
        },
    ),
)


@pytest.mark.parametrize("making", MAKINGS, ids=lambda each: each.name)
def test_an_environment_shows_and_rewards_what_it_did(making: Making) -> None:
    env = gymnasium.make(making.id, **making.keywords)
    world: Any = env.unwrapped
    drawn = np.random.default_rng(0)
    # Told a seed, it needs none to begin.
    observation, info = env.reset() if "seed" in making.keywords else env.reset(seed=7)
    record: dict[str, Any] = {
        "class": type(world).__name__,
        "observation space": repr(env.observation_space),
        "action space": repr(env.action_space),
        "first": _told(observation),
        "info": _told(info),
        "steps": [],
    }
    for _ in range(STEPS):
        action = int(drawn.choice(np.flatnonzero(world.action_masks())))
        observation, reward, terminated, truncated, info = env.step(action)
        assert env.observation_space.contains(observation)
        step = {"action": action, "reward": float(reward), "ends": [terminated, truncated]}
        record["steps"].append({**step, "observation": _told(observation), "info": _told(info)})
    if making.keywords.get("render_mode") == "ansi":
        record["render"] = str(env.render()).splitlines()[:3]
    assert_pinned(f"environments/{making.name}", record, NEAR)
    env.close()


def _told(value: Any) -> Any:
    """A value for JSON; of an array its kind, its sum, and a sum by which places tell."""
    if isinstance(value, dict):
        return {name: _told(held) for name, held in value.items()}
    if isinstance(value, np.ndarray):
        flat = value.astype(np.float64).ravel()
        placed = float(flat @ np.linspace(1.0, 2.0, flat.size))
        return {"kind": f"{value.dtype} {list(value.shape)}", "sum": float(flat.sum()), "placed": placed}
    return value.item() if isinstance(value, np.generic) else value


@pytest.mark.parametrize("id", [PODS, VMS, REBALANCE])
def test_a_keyword_that_is_none_is_refused(id: str) -> None:
    with pytest.raises(Exception, match="surprise"):
        gymnasium.make(id, surprise=1)


def test_the_ids_are_named() -> None:
    assert (proreus.envs.PODS, proreus.envs.VIRTUAL_MACHINES, proreus.envs.REBALANCE) == (
        PODS,
        VMS,
        REBALANCE,
    )


def test_the_names_of_the_notes() -> None:
    """`SchedEnv` answers to the names that its users know it by."""
    env: Any = gymnasium.make(VMS, servers=3).unwrapped
    env.reset(start=500)
    assert env.N == 3 and env.avail.shape == (6,) and env.obs.shape == (3, 2, 2)
    assert env.req.shape == env.feat.shape == (2, 2, 2)
    for name in ("avail", "req", "feat", "obs"):
        assert np.array_equal(env.get_attr(name), getattr(env, name))
    rewards = [env.step(action)[1] for action in (-1, -2)]
    assert rewards == [1.0, 1.0]
    env.reset(options={"start": 500})
