"""`proreus/Rebalance-v0`: the contract of Gymnasium, the notes' table, masks, rewards, Stable-Baselines3."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the extra learn")

import gymnasium
from gymnasium.utils.env_checker import check_env

from proreus.api import make_scenario
from proreus.envs import REBALANCE
from proreus.model.errors import IllegalDecision, UsageError
from proreus.worlds.rebalance.windows.datasets.generator import WindowsConfig, generate_windows
from proreus.worlds.rebalance.windows.datasets.tables import EvenSpread, read_requests
from proreus.worlds.rebalance.windows.encoding.moves import FEATURES
from proreus.worlds.rebalance.windows.env import DeployEnv

TINY: dict[str, Any] = {
    "generator": {"nodes": 3, "pods": 6, "windows": 60},
    "horizon": 4,
    "max_pods": 8,
    "illegal": "stop",
}


def make(**changes: Any) -> DeployEnv:
    return DeployEnv(**{**TINY, **changes})


@pytest.mark.parametrize("scenario", ["serial", "parallel"])
def test_gymnasium_finds_nothing_to_complain_about(scenario: str) -> None:
    check_env(gymnasium.make(REBALANCE, scenario=scenario, **TINY).unwrapped)


def test_an_episode_is_as_long_as_its_windows_and_ends_with_measures() -> None:
    env = make()
    env.reset(seed=1)
    stops, over, total = 0, False, 0.0
    draw = np.random.default_rng(0)
    while not over:
        action = int(draw.choice(np.flatnonzero(env.action_masks())))
        stops += action == env.action_space.n - 1  # type: ignore[attr-defined]  # a Discrete space
        _, reward, over, _, info = env.step(action)
        total += reward
    assert stops == 4
    assert total / 4 == pytest.approx(info["measures"]["reward"])


def test_the_table_is_that_of_the_notes() -> None:
    env = make()
    observation, _ = env.reset(seed=2)
    table = observation["nodes"]
    assert table.shape == (3, 9, 4)
    assert observation["moves"].shape == (19, len(FEATURES))
    pods = table[:, 1:]
    assert (table[:, 0, :2] == 100).all()
    assert (pods[:, :, 0] > 0).sum() == 6
    assert table[:, 0, 2] == pytest.approx(100 - pods[:, :, 2].sum(axis=1), abs=1e-3)
    assert table[:, 0, 3] == pytest.approx(100 - pods[:, :, 3].sum(axis=1), abs=1e-3)
    # Memory as asked, CPU by request.
    assert pods[:, :, 3] == pytest.approx(pods[:, :, 1])
    share = pods[:, :, 0] / pods[:, :, 0].sum(axis=1, keepdims=True)
    assert pods[:, :, 2] == pytest.approx(100 * share, rel=1e-4)


def test_a_masked_action_raises_or_counts_as_a_stop() -> None:
    env = make(illegal="raise")
    env.reset(seed=1)
    masked = int(np.flatnonzero(~env.action_masks())[0])
    with pytest.raises(IllegalDecision):
        env.step(masked)
    lenient = make()
    _, before = lenient.reset(seed=1)
    _, _, _, _, info = lenient.step(masked)
    assert info["illegal"] and info["window"] == before["window"] + 1


def test_the_same_seed_gives_the_same_episode() -> None:
    first, again, other = (make().reset(seed=seed)[0]["nodes"] for seed in (5, 5, 6))
    assert (first == again).all() and (first != other).any()


def test_windows_of_your_own_are_played_in_their_part() -> None:
    windows = generate_windows(WindowsConfig(nodes=3, pods=6, windows=100), 4)
    env = DeployEnv(windows, part="test", horizon=5)
    for seed in range(8):
        _, info = env.reset(seed=seed)
        assert 75 <= info["window"] <= 95


def test_render_shows_every_pod_on_its_node() -> None:
    env = make(render_mode="ansi")
    env.reset(seed=1)
    action = int(np.flatnonzero(env.action_masks())[0])
    env.step(action)
    text = env.render()
    assert text is not None
    assert all(f"pod{p + 1} " in text for p in range(6)) and "node3" in text
    assert text.count("*") == 2  # the head of the column, and the pod that moved


def test_bad_settings_are_named() -> None:
    for bad in ({"scenario": "x"}, {"part": "all"}, {"illegal": "no"}, {"horizon": 0}, {"colour": 1}):
        with pytest.raises(UsageError):
            make(**bad)
    with pytest.raises(UsageError, match="reset"):
        make().action_masks()


def test_maskable_ppo_learns_on_it() -> None:
    pytest.importorskip("sb3_contrib", reason="needs the extra sb3")
    import torch
    from sb3_contrib import MaskablePPO

    from proreus.envs.sb3 import make_sb3_env

    torch.set_num_threads(1)
    envs = make_sb3_env(REBALANCE, count=2, **{**TINY, "illegal": "raise"})
    model = MaskablePPO("MlpPolicy", envs, n_steps=16, batch_size=16, n_epochs=1, seed=1, device="cpu")
    before = [parameter.detach().clone() for parameter in model.policy.parameters()]
    model.learn(64)
    after = list(model.policy.parameters())
    assert any((a != b).any() for a, b in zip(after, before, strict=True))


def test_a_cleaned_folder_is_read_as_its_requests(tmp_path: Path) -> None:
    (tmp_path / "requests.csv").write_text("time,pod,cpu,mem\n0,a,1,1\n10,b,2,1\n400,a,1,2\n")
    whole, file = (read_requests(path, EvenSpread(2)) for path in (tmp_path, tmp_path / "requests.csv"))
    assert whole.deployment.pod_names == file.deployment.pod_names == ("a", "b")
    assert whole.windows == file.windows


def test_a_scenario_made_in_python_is_taken() -> None:
    scenario: Any = make_scenario("rebalance", "windows/parallel", budget=2)
    env = DeployEnv(scenario, horizon=4)
    assert (env.options.service, env.options.budget) == ("parallel", 2)
    env.reset(seed=1)
    named = DeployEnv("windows/parallel", horizon=4, budget=2)
    named.reset(seed=1)
    np.testing.assert_array_equal(env.step(500)[0]["nodes"], named.step(500)[0]["nodes"])
