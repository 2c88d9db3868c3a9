"""Laws of vector environments: Gymnasium's own vector of single lanes is what they must be like."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import DictInfoToList, RecordEpisodeStatistics

from proreus.contract.lanes import Choices, Steps
from proreus.envs.lanes import LanesEnv
from proreus.envs.vector import LanesVectorEnv
from proreus.kernels.arrays import I64
from proreus.model.errors import IllegalDecision, UsageError
from proreus.worlds import WORLDS
from tests.toy import TOY

PLACES = {name: place for entry in (*WORLDS.values(), TOY) for name, place in entry.lanes.items()}
COUNT = 3
SMALL: dict[str, dict[str, Any]] = {
    "proreus/Pods-v0": {"scenario": "small@4", "horizon": 25},
    "proreus/VirtualMachines-v0": {"scenario": "recovering@2", "limit": 60},
    "proreus/Rebalance-v0": {"scenario": "serial@2", "horizon": 3, "pool": 2},
    "proreus/Workflows-v0": {"scenario": "busy@2"},
    "proreus/Functions-v0": {"scenario": "busy@1"},
}
"""Episodes short enough to end within a test; other worlds are tried as they are."""
every_id = pytest.mark.parametrize("name", PLACES)


def vector_of(name: str, **settings: Any) -> Any:
    """The vector environment of an id."""
    return gymnasium.make_vec(name, num_envs=COUNT, **SMALL.get(name, {}), **settings)


def singles_of(name: str) -> Any:
    """Gymnasium's vector of environments, each over one lane."""

    def make_env() -> LanesEnv:
        return LanesEnv(PLACES[name], **SMALL.get(name, {}))

    return SyncVectorEnv([make_env] * COUNT, autoreset_mode=AutoresetMode.SAME_STEP)


def drawn(masks: Any, random: np.random.Generator) -> Any:
    """A legal action for each."""
    return np.array([int(random.choice(np.flatnonzero(mask))) for mask in masks])


@every_id
def test_each_lane_is_the_environment_of_its_seed(name: str) -> None:
    ours, theirs = vector_of(name), singles_of(name)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.single_action_space == theirs.single_action_space
    assert ours.metadata["autoreset_mode"] == theirs.metadata["autoreset_mode"]
    random, ends = np.random.default_rng(0), 0
    now, infos = ours.reset(seed=7)
    same((now, infos), theirs.reset(seed=7))
    for number in range(150):
        assert ours.observation_space.contains(now)
        np.testing.assert_array_equal(infos["action_mask"], ours.action_masks())
        actions = drawn(infos["action_mask"], random)
        if number % 10 == 0:
            actions[0] = int(np.argmin(infos["action_mask"][0]))  # illegal, where anything is
        step, other = ours.step(actions), theirs.step(actions)
        same(step, other)
        now, infos = step[0], step[-1]
        ends += int((step[2] | step[3]).sum())
        if number == 109:
            which = np.array([True, False, True])
            fresh = ours.reset(seed=number, options={"reset_mask": which})
            same(fresh, theirs.reset(seed=number, options={"reset_mask": which}))
            again = ours.reset(options={"reset_mask": ~which})
            same(again, theirs.reset(options={"reset_mask": ~which}))
            now, infos = again[0], {"action_mask": ours.action_masks().astype(np.int8)}
    assert ends > 0, "an end was seen"


def same(keys: Any, two: Any) -> None:
    """Arrays, and dicts and rows of them."""
    if isinstance(keys, dict):
        assert keys.keys() == two.keys()
        for key in keys:
            same(keys[key], two[key])
    elif isinstance(keys, tuple | list) or (isinstance(keys, np.ndarray) and keys.dtype == object):
        assert len(keys) == len(two)
        for left, right in zip(keys, two, strict=True):
            same(left, right)
    else:
        np.testing.assert_array_equal(keys, two)
        assert np.asarray(keys).dtype == np.asarray(two).dtype


@every_id
def test_the_same_seed_gives_the_same_trajectories(name: str) -> None:
    def trajectory(seed: Any) -> list[bytes]:
        env, random, shown = vector_of(name), np.random.default_rng(1), []
        _, infos = env.reset(seed=seed)
        for _ in range(30):
            seen, *worth, infos = env.step(drawn(infos["action_mask"], random))
            shown += [np.asarray(array).tobytes() for array in (*seen.values(), *worth)]
        return shown

    assert trajectory(5) == trajectory(5) == trajectory([5, 6, 7])
    assert trajectory(5) != trajectory(6)


@every_id
def test_wrappers_of_gymnasium_take_it(name: str) -> None:
    env = DictInfoToList(RecordEpisodeStatistics(vector_of(name)))
    random = np.random.default_rng(0)
    _, infos = env.reset(seed=1)
    for _ in range(20):
        *_, infos = env.step(drawn([info["action_mask"] for info in infos], random))
    assert len(infos) == COUNT


@every_id
def test_what_is_refused_is_named(name: str) -> None:
    env = vector_of(name, illegal="raise")
    with pytest.raises(UsageError, match="reset the environments"):
        env.step(np.zeros(COUNT, dtype=np.int64))
    env.reset(seed=1)
    with pytest.raises(IllegalDecision, match="of environment 1 is masked"):
        env.step(np.array([int(np.argmax(env.action_masks()[0])), -1, 0]))
    with pytest.raises(UsageError, match="actions: needs 3"):
        env.step(np.zeros(2, dtype=np.int64))
    with pytest.raises(UsageError, match="reset_mask: needs 3"):
        env.reset(options={"reset_mask": np.zeros(COUNT, dtype=np.bool_)})
    with pytest.raises(UsageError, match="seed: 2 of them"):
        env.reset(seed=[1, 2])
    with pytest.raises(UsageError, match="option of reset"):
        env.reset(options={"start": 1})
    with pytest.raises(UsageError, match="setting"):
        vector_of(name, scenari="x")


class CutLanes:
    """Lanes of one choice; every second step ends, every fourth for want of time."""

    encoding = "cut"

    def __init__(self, count: int) -> None:
        self._count, self._steps = count, 0

    def __len__(self) -> int:
        return self._count

    def _choices(self) -> Choices:
        rows = np.zeros((self._count, 1, 1), dtype=np.float32)
        return Choices(rows, rows[:, 0], np.ones((self._count, 1), dtype=np.bool_))

    def reset(self, seed: int) -> Choices:
        return self._choices()

    def reset_some(self, seeds: Any) -> Choices:
        return self._choices()

    def step(self, chosen: I64) -> Steps:
        self._steps += 1
        ended = np.full(self._count, self._steps % 2 == 0)
        worth = np.ones(self._count)
        return Steps(self._choices(), worth, ended, worth, ended & (self._steps % 4 == 0))


def test_an_episode_that_is_cut_short_is_truncated() -> None:
    env = LanesVectorEnv(f"{__name__}:CutLanes", 2)
    env.reset(seed=0)
    flags = [tuple(bool(flag[0]) for flag in env.step(np.zeros(2, dtype=np.int64))[2:4]) for _ in range(4)]
    assert flags == [(False, False), (True, False), (False, False), (False, True)]
