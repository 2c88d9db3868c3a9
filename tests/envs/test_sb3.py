"""Stable-Baselines3 and sb3-contrib take the environments through the adapter."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("stable_baselines3", reason="needs the extra sb3")
pytest.importorskip("sb3_contrib", reason="needs the extra sb3")

import gymnasium
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3 import DQN
from stable_baselines3.common.env_checker import check_env

from proreus.envs import PODS, VIRTUAL_MACHINES
from proreus.envs.sb3 import FlatObservation, RowsPolicy, make_sb3_env
from proreus.model.errors import UsageError
from proreus.worlds.pods.encoding.context import CONTEXT_FEATURES
from proreus.worlds.pods.encoding.pair import PAIR_FEATURES

EXAMPLES = Path(__file__).parents[2] / "examples"
TINY: dict[str, Any] = {"generator": {"nodes": 4, "pods": 20}}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small networks are fastest on one thread, and tests run side by side."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def load_example(name: str) -> ModuleType:
    """The example as a module, though its name begins with a digit."""
    spec = importlib.util.spec_from_file_location(f"example_{name[:2]}", EXAMPLES / name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("encoding", ["features", "vector"])
def test_stable_baselines_finds_nothing_to_complain_about(encoding: str) -> None:
    env = gymnasium.make(PODS, encoding=encoding, illegal="delay", **TINY)
    check_env(FlatObservation(env) if encoding == "features" else env.unwrapped)


def test_flat_observations_hold_every_number_in_a_stated_order() -> None:
    inside = gymnasium.make(PODS, **TINY)
    env = FlatObservation(inside)
    flat, info = env.reset(seed=1)
    assert flat.dtype == np.float32 and env.observation_space.contains(flat)
    observed, _ = inside.reset(seed=1)
    expected = [observed["action_mask"], observed["context"], observed["nodes"].ravel()]
    np.testing.assert_array_equal(flat, np.concatenate(expected).astype(np.float32))
    assert flat.shape == (10 + len(CONTEXT_FEATURES) + 4 * len(PAIR_FEATURES),)
    np.testing.assert_array_equal(env.action_masks(), info["action_mask"])


def test_each_environment_of_a_vector_has_a_seed_of_its_own() -> None:
    first = make_sb3_env(count=2, seed=3, **TINY)
    again = make_sb3_env(count=2, seed=3, **TINY)
    a, b = first.reset(), again.reset()
    assert isinstance(a, np.ndarray) and isinstance(b, np.ndarray)
    np.testing.assert_array_equal(a, b)
    assert not np.array_equal(a[0], a[1])


def test_dict_observations_stay_dicts_when_asked_for() -> None:
    env = make_sb3_env(flat=False, **TINY)
    observed = env.reset()
    tables, _ = gymnasium.make(PODS, **TINY).reset(seed=0)
    assert isinstance(observed, dict) and set(observed) == set(tables)
    assert observed["nodes"].shape == (1, 4 * len(PAIR_FEATURES)), "SB3 knows vectors and images, no tables"
    for name, vector in observed.items():
        np.testing.assert_array_equal(vector[0], tables[name].ravel())


def test_a_time_limit_truncates() -> None:
    env = make_sb3_env(max_steps=2, **TINY)
    env.reset()
    delay = np.array([8])
    env.step(delay)
    _, _, dones, infos = env.step(delay)
    assert dones[0] and infos[0]["TimeLimit.truncated"]


@pytest.mark.parametrize("flat", [True, False])
def test_maskable_ppo_makes_no_illegal_choice(flat: bool) -> None:
    """Illegal actions raise here, so that one such choice would end the test."""
    env = make_sb3_env(count=2, flat=flat, illegal="raise", **TINY)
    assert is_masking_supported(env)
    env.reset()
    assert get_action_masks(env).shape == (2, 10)
    policy = "MlpPolicy" if flat else "MultiInputPolicy"
    MaskablePPO(policy, env, n_steps=32, batch_size=32, seed=0).learn(128)


def servers(count: int = 2, **settings: Any) -> Any:
    """Environments of virtual machines that observe a row for each place."""
    return make_sb3_env(VIRTUAL_MACHINES, count=count, flat=False, encoding="rows", **settings)


def test_a_policy_over_rows_scores_every_place_with_the_same_weights() -> None:
    env = servers()
    model = MaskablePPO(RowsPolicy, env, n_steps=32, batch_size=32, seed=0)
    model.learn(128)
    policy: Any = model.policy
    observed = env.reset()
    assert isinstance(observed, dict)
    rows = _unlike(observed["rows"])
    with torch.no_grad():
        logits, turned = (
            policy.get_distribution(
                policy.obs_to_tensor({**observed, "rows": seen})[0]
            ).distribution.logits.numpy()
            for seen in (rows, _turned(rows))
        )
    assert np.ptp(logits, axis=1).min() > 0, "rows that differ are told apart"
    np.testing.assert_allclose(turned[:, ::-1], logits, atol=1e-6)


def _unlike(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows of which no two are alike: an empty cluster's are."""
    return rows * np.linspace(0.2, 1.0, rows.shape[1], dtype=np.float32)


def _turned(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The same rows, the last one first."""
    return rows.reshape(len(rows), 10, -1)[:, ::-1].reshape(len(rows), -1)


def test_a_policy_over_rows_learns_wherever_there_is_one_for_each_action() -> None:
    env = make_sb3_env("proreus/Workflows-v0", flat=False, illegal="raise")
    MaskablePPO(RowsPolicy, env, n_steps=32, batch_size=32, seed=0).learn(64)


def test_a_policy_over_rows_is_saved_and_read_again(tmp_path: Path) -> None:
    env = servers()
    model = MaskablePPO(RowsPolicy, env, n_steps=32, batch_size=32, seed=0, policy_kwargs={"hidden": 16})
    model.learn(64)
    model.save(tmp_path / "rows")
    model.policy.save(str(tmp_path / "policy"))
    observed, masks = env.reset(), get_action_masks(env)
    again = MaskablePPO.load(tmp_path / "rows", env=env)
    alone = RowsPolicy.load(str(tmp_path / "policy"))
    for reader in (again, alone):
        np.testing.assert_array_equal(
            reader.predict(observed, deterministic=True, action_masks=masks)[0],
            model.predict(observed, deterministic=True, action_masks=masks)[0],
        )


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"env_id": VIRTUAL_MACHINES}, "no dict of rows"), ({"flat": True, **TINY}, "no dict of rows")],
)
def test_a_policy_over_rows_says_what_it_needs(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        MaskablePPO(RowsPolicy, make_sb3_env(**{"flat": False, **settings}))


def test_dqn_learns_without_masks() -> None:
    env = make_sb3_env(illegal="delay", max_steps=50, **TINY)
    model = DQN("MlpPolicy", env, learning_starts=20, buffer_size=200, seed=0)
    before = [weights.detach().clone() for weights in model.q_net.parameters()]
    model.learn(100)
    changed = [not torch.equal(a, b) for a, b in zip(before, model.q_net.parameters(), strict=True)]
    assert all(changed)
    seen = model.replay_buffer
    assert seen is not None and seen.size() == 100
    masks, actions = seen.observations[:100, 0, :10], seen.actions[:100, 0, 0]
    chosen = masks[np.arange(100), actions]
    assert {0.0, 1.0} == set(chosen.tolist()), "illegal choices were made, and none of them ended the run"


def test_the_example_runs_and_prints_its_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--steps", "64", "--episodes", "2", "--nodes", "3", "--no-progress"]
    table = load_example("01_stable_baselines3.py").main(
        [*words, "--logs", str(tmp_path / "logs"), "--save", str(tmp_path)]
    )
    assert list(table) == ["random", "best_fit", "MaskablePPO", "DQN"]
    assert all(len(returns) == 2 and min(returns) >= 0 for returns in table.values())
    assert "best_fit" in capsys.readouterr().out
    assert len(list((tmp_path / "logs").rglob("events.out.tfevents.*"))) == 2
    assert (tmp_path / "MaskablePPO.zip").exists()


def test_the_example_of_virtual_machines_judges_everybody_on_the_same_runs() -> None:
    table = load_example("06_maskable_ppo.py").main(["--steps", "64", "--runs", "3", "--seeds", "4"])
    rules = ["random", "first_fit", "best_fit", "balance_fit"]
    assert list(table) == [*rules, "MaskablePPO, seed 4", "proreus ppo, seed 4"]
    assert all(placed.shape == (3,) and placed.min() > 0 for placed in table.values())


def test_environments_alone_do_not_import_stable_baselines() -> None:
    asked = "'stable_baselines3' in sys.modules, 'torch' in sys.modules"
    code = f"import sys, proreus.worlds.pods.env; print({asked})"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == ["False", "False"]
