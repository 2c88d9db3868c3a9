"""Laws of what learners see: environments that every checker takes, lanes that go on bit for bit."""

from __future__ import annotations

import importlib
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3

import proreus.envs
from proreus.contract.lanes import Choices, Lanes
from proreus.envs.lanes import LanesEnv
from proreus.envs.sb3 import FlatObservation
from proreus.model.errors import IllegalDecision
from proreus.worlds import WORLDS
from tests.toy import TOY

KNOWN = {**WORLDS, "toy": TOY}
IDS = [name for found in KNOWN.values() for name in (*found.envs, *found.lanes)]
LANES = [place for found in KNOWN.values() for place in found.lanes.values()]
"""Functions that make lanes. Learners of the package's worlds make theirs elsewhere: add those here."""


def made(name: str) -> gymnasium.Env[Any, Any]:
    """An environment with its default arguments; a checker knows no masks, so its choices are made legal."""
    env: Any = gymnasium.make(name).unwrapped
    plain = env.step

    def step(action: Any) -> Any:
        mask = env.action_masks()
        return plain(action if mask[action] else int(np.argmax(mask)))

    env.step = step
    found: gymnasium.Env[Any, Any] = env
    return found


@pytest.mark.parametrize("name", IDS)
def test_checkers_find_nothing_to_complain_about(name: str) -> None:
    """Warnings are errors in these tests."""
    check_env(made(name))
    check_env_of_sb3(FlatObservation(made(name)))  # as `envs.sb3` hands it to an `MlpPolicy`


@pytest.mark.parametrize("name", IDS)
def test_the_same_seed_gives_the_same_episodes(name: str) -> None:
    assert _episode(name, 3, 60) == _episode(name, 3, 60)
    assert _episode(name, 3, 60) != _episode(name, 4, 60)


@pytest.mark.parametrize("name", IDS)
def test_a_masked_action_raises_by_default(name: str) -> None:
    env = gymnasium.make(name).unwrapped
    env.reset(seed=1)
    for _ in range(200):
        mask = env.action_masks()  # type: ignore[attr-defined]  # environments of all worlds have them
        if not mask.all():
            break
        if env.step(int(np.flatnonzero(mask)[0]))[2]:
            env.reset()
    with pytest.raises(IllegalDecision):
        env.step(int(np.flatnonzero(~mask)[0]))


def _episode(name: str, seed: int, most: int) -> list[Any]:
    """What is seen and what it was worth, over episodes, with actions drawn from the masks."""
    env, draw = gymnasium.make(name).unwrapped, np.random.default_rng(0)
    seen, _ = env.reset(seed=seed)
    found = []
    for _ in range(most):
        action = int(draw.choice(np.flatnonzero(env.action_masks())))  # type: ignore[attr-defined]
        after, reward, terminated, truncated, _ = env.step(action)
        found.append((_bytes(seen), action, reward, terminated, truncated))
        seen = env.reset()[0] if terminated or truncated else after
    return found


def _bytes(seen: Any) -> Any:
    return {key: np.asarray(value).tobytes() for key, value in seen.items()}


def lanes_of(place: str) -> Lanes:
    """The lanes that a function makes."""
    module, _, name = place.partition(":")
    lanes: Lanes = getattr(importlib.import_module(module), name)()
    return lanes


def played(lanes: Lanes, choices: Choices, steps: int, seed: int) -> list[bytes]:
    """All that lanes show while they are stepped with legal actions."""
    draw, found = np.random.default_rng(seed), []
    for _ in range(steps):
        chosen = np.array([int(draw.choice(np.flatnonzero(legal))) for legal in choices.legal])
        choices, *rest = lanes.step(chosen)
        found += [np.asarray(array).tobytes() for array in (*choices, *rest) if array is not None]
    return found


@pytest.mark.parametrize("place", LANES)
def test_lanes_go_on_from_what_was_captured(place: str) -> None:
    lanes = lanes_of(place)
    begun = lanes.reset(7)
    assert played(lanes, begun, 150, 0) == played(lanes, lanes.reset(7), 150, 0)
    saved = lanes.capture()
    other = lanes_of(place)
    shown = other.restore(saved)
    again = lanes.restore(saved)
    for one, two in zip(shown, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert played(other, shown, 150, 1) == played(lanes, again, 150, 1)


@pytest.mark.parametrize("place", LANES)
def test_lanes_have_one_shape(place: str) -> None:
    lanes = lanes_of(place)
    choices = lanes.reset(0)
    shapes = [array.shape for array in choices]
    assert choices.rows.dtype == choices.context.dtype == np.float32 and choices.legal.dtype == np.bool_
    assert choices.legal.any(axis=1).all() and len(choices.rows) == len(lanes) and lanes.encoding
    steps = lanes.step(choices.legal.argmax(axis=1))
    assert [array.shape for array in steps.choices] == shapes
    assert steps.rewards.shape == steps.ended.shape == steps.own.shape == (len(lanes),)


def test_a_world_that_registers_later_has_its_environments() -> None:
    assert "proreus/Toy-v0" in gymnasium.registry
    proreus.envs.register_all()
    assert isinstance(gymnasium.make("proreus/Toy-v0").unwrapped, LanesEnv)
