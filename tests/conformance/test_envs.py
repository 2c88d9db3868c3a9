"""Laws of what learners see: environments that every checker takes, lanes that go on bit for bit."""

from __future__ import annotations

import copy
import importlib
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3

import proreus.envs
from proreus.contract.lanes import Choices, Lanes
from proreus.envs.lanes import LanesEnv
from proreus.envs.sb3 import make_sb3_env
from proreus.model.errors import IllegalDecision, UsageError
from proreus.worlds import WORLDS
from tests.cli.runner import environment
from tests.toy import TOY

KNOWN = {**WORLDS, "toy": TOY}
IDS = list(dict.fromkeys(name for entry in KNOWN.values() for name in (*entry.envs, *entry.lanes)))
LANES = [place for entry in KNOWN.values() for place in entry.lanes.values()]
"""Functions that make lanes. Learners of the package's worlds make theirs elsewhere: add those here."""


@pytest.mark.parametrize("name", IDS)
def test_checkers_find_nothing_to_complain_about(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Warnings are errors in these tests. The checkers know no masks: what they do by default must go on."""
    check_env(gymnasium.make(name).unwrapped)
    assert capsys.readouterr().out, "the checker of Gymnasium renders for humans too"


@pytest.mark.parametrize("flat", [True, False])
@pytest.mark.parametrize("name", IDS)
def test_stable_baselines_warns_of_nothing_that_it_is_handed(name: str, flat: bool) -> None:
    """Warnings are errors here too: of its checker, of its Monitor, of the vector environment."""
    envs = make_sb3_env(name, flat=flat)
    check_env_of_sb3(envs.envs[0])
    envs.reset()
    envs.step(np.array([envs.action_space.sample()]))


@pytest.mark.parametrize("name", IDS)
def test_stable_baselines_warns_of_tables_alone_where_it_is_handed_the_environment_itself(name: str) -> None:
    """It knows vectors and images; what is documented are tables, and `make_sb3_env` flattens them."""
    env = gymnasium.make(name)
    assert isinstance(env.observation_space, spaces.Dict)
    with warnings.catch_warnings(record=True) as warning_messages:
        warnings.simplefilter("always")
        check_env_of_sb3(env)
    tables = [key for key, space in env.observation_space.items() if len(space.shape or ()) not in (0, 1)]
    about_tables = (
        "has an unconventional shape",
        "is an image but",
        "image space as channels",
        "for an image is",
    )
    assert bool(warning_messages) == bool(tables)
    others = [
        str(warning.message)
        for warning in warning_messages
        if not any(text in str(warning.message) for text in about_tables)
    ]
    assert not others


@pytest.mark.parametrize("name", IDS)
def test_actions_drawn_without_and_with_masks(name: str) -> None:
    env = gymnasium.make(name)
    _, info = env.reset(seed=1)
    env.action_space.seed(1)
    for _ in range(100):
        _, _, terminated, truncated, info = env.step(env.action_space.sample())
        if terminated or truncated:
            _, info = env.reset()
    for _ in range(100):
        _, _, terminated, truncated, info = env.step(env.action_space.sample(mask=info["action_mask"]))
        assert not info["illegal"]
        if terminated or truncated:
            _, info = env.reset()


@pytest.mark.parametrize("name", IDS)
def test_the_mask_of_info_is_that_of_the_method(name: str) -> None:
    env = gymnasium.make(name).unwrapped
    _, info = env.reset(seed=1)
    masks = env.action_masks()  # type: ignore[attr-defined]  # environments of all worlds have them
    assert info["action_mask"].dtype == np.int8 and masks.dtype == np.bool_
    np.testing.assert_array_equal(info["action_mask"], masks)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))])
@pytest.mark.parametrize("name", IDS)
def test_a_copy_goes_on_by_itself(name: str, copied: Callable[[Any], Any]) -> None:
    env = gymnasium.make(name).unwrapped
    env.reset(seed=3)
    _go_on(env, 30, 0)
    first, second = copied(env), copied(env)
    ahead = _go_on(first, 60, 1)
    assert _go_on(second, 60, 1) == ahead, "what one copy does is not seen by another"
    assert _go_on(env, 60, 1) == ahead, "nor by what it was copied from"
    begun = [_bytes(copied_env.reset(seed=9)[0]) for copied_env in (env, first, second)]
    assert begun[0] == begun[1] == begun[2], "nor is a copy bound to the episode in which it was made"
    anew = _go_on(env, 200, 2)
    assert _go_on(first, 200, 2) == anew == _go_on(second, 200, 2)


@pytest.mark.parametrize("name", IDS)
def test_a_reward_of_ones_own(name: str) -> None:
    heard = []

    def reward(env: Any, worth: float, info: dict[str, Any]) -> float:
        heard.append((type(env), worth, info["illegal"]))
        return 2.0 * worth - 1.0

    own, usual = gymnasium.make(name, reward=reward), gymnasium.make(name)
    for env in (own, usual):
        env.reset(seed=1)
    for _ in range(20):
        action = int(np.flatnonzero(usual.unwrapped.action_masks())[0])  # type: ignore[attr-defined]
        _, worth, terminated, truncated, _ = usual.step(action)
        _, changed, *_, info = own.step(action)
        assert changed == 2.0 * float(worth) - 1.0 and info["worth"] == worth
        if terminated or truncated:
            break
    assert heard[0][0] is type(own.unwrapped)


@pytest.mark.parametrize("name", IDS)
def test_an_environment_can_be_seen(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = gymnasium.make(name, render_mode="ansi")
    text.reset(seed=1)
    assert str(text.render()).strip()
    human = gymnasium.make(name, render_mode="human")
    human.reset(seed=1)
    assert capsys.readouterr().out.strip() == str(text.render()).strip() and human.render() is None
    picture = gymnasium.make(name, render_mode="rgb_array")
    picture.reset(seed=1)
    first: Any = picture.render()
    assert first.dtype == np.uint8 and first.ndim == 3 and first.shape[2] == 3
    assert first.min() < 100 < 200 < first.max(), "something is drawn"
    picture.step(picture.action_space.sample(mask=picture.reset(seed=2)[1]["action_mask"]))
    second: Any = picture.render()
    assert second.shape == first.shape, "frames of a film are alike"
    with (
        pytest.warns(UserWarning, match="not in the possible render_modes"),
        pytest.raises(UsageError, match="did you mean 'human'"),
    ):
        gymnasium.make(name, render_mode="humans", disable_env_checker=True)


@pytest.mark.parametrize("name", IDS)
def test_the_same_seed_gives_the_same_episodes(name: str) -> None:
    assert _episode(name, 3, 60) == _episode(name, 3, 60)
    assert _episode(name, 3, 60) != _episode(name, 4, 60)


@pytest.mark.parametrize("name", IDS)
def test_a_masked_action_raises_where_it_is_to(name: str) -> None:
    env: Any = gymnasium.make(name, illegal="raise").unwrapped
    with pytest.raises(IllegalDecision, match="with illegal="):
        env.step(_masked(env))
    usual: Any = gymnasium.make(name).unwrapped
    *_, info = usual.step(_masked(usual))
    assert info["illegal"]


def _masked(env: Any) -> int:
    """An action that is illegal, once there is one; where all are legal, one that there is not."""
    env.reset(seed=1)
    for _ in range(200):
        mask = env.action_masks()
        if not mask.all():
            break
        if env.step(int(np.flatnonzero(mask)[0]))[2]:
            env.reset()
    return int(np.argmin(mask)) if not mask.all() else int(mask.size)


def _episode(name: str, seed: int, most: int) -> list[Any]:
    """What is seen and what it was worth, over episodes, with actions drawn from the masks."""
    env = gymnasium.make(name).unwrapped
    seen, _ = env.reset(seed=seed)
    return [_bytes(seen), *_go_on(env, most, 0)]


def _go_on(env: Any, most: int, seed: int) -> list[Any]:
    """So many steps with actions drawn from the masks, over episodes."""
    draw, trajectory = np.random.default_rng(seed), []
    for _ in range(most):
        action = int(draw.choice(np.flatnonzero(env.action_masks())))
        seen, reward, terminated, truncated, _ = env.step(action)
        trajectory.append((_bytes(seen), action, reward, terminated, truncated))
        if terminated or truncated:
            env.reset()
    return trajectory


def _bytes(seen: Any) -> Any:
    return {key: np.asarray(value).tobytes() for key, value in seen.items()}


def lanes_of(place: str) -> Lanes:
    """The lanes that a function makes."""
    module, _, name = place.partition(":")
    lanes: Lanes = getattr(importlib.import_module(module), name)()
    return lanes


def played(lanes: Lanes, choices: Choices, steps: int, seed: int) -> list[bytes]:
    """All that lanes show while they are stepped with legal actions."""
    draw, trajectory = np.random.default_rng(seed), []
    for _ in range(steps):
        chosen = np.array([int(draw.choice(np.flatnonzero(legal))) for legal in choices.legal])
        choices, *rest = lanes.step(chosen)
        trajectory += [np.asarray(array).tobytes() for array in (*choices, *rest) if array is not None]
    return trajectory


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


@pytest.mark.parametrize("imports", ["gymnasium, proreus", "proreus, gymnasium"])
def test_a_plain_import_is_enough(imports: str) -> None:
    """In whichever order; and without Gymnasium nothing of it, nor of NumPy, is loaded."""
    code = (
        f"import {imports}\n"
        "env = gymnasium.make('proreus/Pods-v0')\n"
        "assert gymnasium.make('proreus:proreus/Rebalance-v0')\n"
        "print(type(env.unwrapped).__name__)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert done.stdout == "PodsEnv\n", done.stderr
    alone = "import sys, proreus; print([n for n in ('gymnasium', 'numpy', 'rich') if n in sys.modules])"
    done = subprocess.run([sys.executable, "-c", alone], env=environment(), capture_output=True, text=True)
    assert done.stdout == "[]\n"
