"""The document's training script runs as it stands in `examples`."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sb3_contrib", reason="needs the extra `sb3`")
pytest.importorskip("torch", reason="needs the extra `learn`")

EXAMPLES = Path(__file__).parents[3] / "examples"


def example(name: str = "04_serverless.py") -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("serverless", EXAMPLES / name)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_trains_saves_evaluates_and_infers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = example().main(["--steps", "64", "--episodes", "1", "--save", str(tmp_path)])
    assert list(table) == ["PPO", "DQN", "MaskablePPO", "native PPO", "least_utilised"]
    assert all(0.0 < objective < 200.0 for objective in table.values())
    assert capsys.readouterr().out.count("an instance starts on node") == 9
    assert {path.stem for path in tmp_path.iterdir()} == {
        "ppo_serverless",
        "dqn_serverless",
        "maskableppo_serverless",
    }


def test_held_out_work_is_what_the_environment_plays() -> None:
    module = example()
    arguments = module.parse(["--episodes", "2"])
    env = module.make_env(arguments, "test")
    for seed, work in enumerate(module.held_out(2)):
        env.reset(seed=seed)
        assert env.unwrapped._run.work.arrival.tolist() == work.arrival.tolist()


def test_learners_are_judged_beside_rules_and_constants(tmp_path: Path) -> None:
    words = ["--learners", "DQN,native", "--seeds", "0,1", "--steps", "60", "--native-steps", "2048"]
    words += ["--episodes", "2", "--models", str(tmp_path), "--json", str(tmp_path / "rows.json")]
    module = example("07_serverless_learning.py")
    rows = module.main(words)
    assert json.loads((tmp_path / "rows.json").read_text())["rows"] == rows
    means = {(row["policy"], row["measure"]): row["mean"] for row in rows}
    policies = ["random", "blind", "best constant", "best rule", "DQN (SB3)", "native PPO"]
    assert list(dict.fromkeys(policy for policy, _ in means)) == policies
    for policy in policies:
        ahead = means[policy, "return"] - means["random", "return"]
        assert means[policy, "return over random"] == pytest.approx(ahead)
        assert means[policy, "worst seed over random"] <= ahead + 1e-9
    assert means["random", "illegal"] == means["native PPO", "illegal"] == 0.0 < means["blind", "illegal"]
    assert means["best rule", "return"] > means["best constant", "return"]
    trained = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*-*")}
    assert len(trained) == 4
    assert module.main(words) == rows, "what was trained is judged again, not trained again"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*-*")} == trained


def test_ppo_goes_on_where_it_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = example("07_serverless_learning.py")
    make_model = module.make_model

    def small(name: str, seed: int) -> Any:
        model = make_model(name, seed)
        model.n_steps = model.rollout_buffer.buffer_size = 64
        model.rollout_buffer.reset()
        return model

    monkeypatch.setattr(module, "make_model", small)
    monkeypatch.setattr(module, "SAVED_EVERY", 64)
    path = tmp_path / "PPO-0-192.zip"
    begun = small("PPO", 0).learn(64)
    begun.save(path.with_suffix(".begun.zip"))
    model = module.learned_model("PPO", 0, path, 192)
    assert model.num_timesteps == 192 and path.exists() and not path.with_suffix(".begun.zip").exists()
