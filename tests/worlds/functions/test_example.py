"""The document's training script runs as it stands in `examples`."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sb3_contrib", reason="needs the extra `sb3`")
pytest.importorskip("torch", reason="needs the extra `learn`")

EXAMPLE = Path(__file__).parents[3] / "examples" / "04_serverless.py"


def example() -> Any:
    """The script as a module."""
    spec = importlib.util.spec_from_file_location("serverless", EXAMPLE)
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
