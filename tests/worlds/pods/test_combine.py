"""Specialists put together: each decides for the demand that it was trained on, through the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.cli.main import main
from proreus.policies.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from proreus.worlds.pods.encoding.figures import demand_figures
from proreus.worlds.pods.encoding.pair import VERSION
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.adaptive import weights_of_rule
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.scenarios import parse_scenario
from proreus.worlds.pods.state.devices import LEVELS
from proreus.worlds.pods.training.combine import LENGTH

SHORT = ("--generations", "2", "--population", "4", "--validation-seeds", "1", "--confirm-seeds", "2")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two short trainings, one with and one without GPUs."""
    folder = tmp_path_factory.mktemp("runs")
    for name, scenario, measure in (
        ("gpu", "gpu@12", "gpu_allocation_peak"),
        ("plain", "small", "wait_mean"),
    ):
        words = ("train", "pods", "--algo", "es", "--scenarios", scenario, "--measure", measure)
        assert main([*words, *SHORT, "--processes", "1", "--out", str(folder / name)]) == 0
    return folder


def test_the_combined_policy_decides_as_the_expert_for_the_demand(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    both = tmp_path / "both"
    assert main(["combine", "pods", str(runs / "gpu"), str(runs / "plain"), "--out", str(both)]) == 0
    output = capsys.readouterr().out
    assert "expert: gpu@12" in output and "objectives: gpu_allocation, wait" in output
    checkpoint = load_checkpoint(both, VERSION)
    assert checkpoint.tensors["stands"][0] == pytest.approx(
        demand_figures(parse_scenario("gpu@12", None).of_part("train").load(0))
    )
    assert np.linalg.norm(checkpoint.tensors["weights"], axis=-1) == pytest.approx(LENGTH)
    for scenario, expert in (
        (parse_scenario("gpu@12", None), "gpu"),
        (parse_scenario("small", None), "plain"),
    ):
        work = scenario.of_part("train").load(0)
        alone, together = (
            simulate(work, make_policy(str(path)), scenario.options).measures
            for path in (runs / expert, both)
        )
        assert {**together, "decisions_per_s": 0.0} == {**alone, "decisions_per_s": 0.0}


def test_another_expert_joins_one_that_adapts_already(runs: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert main(["combine", "pods", str(runs / "gpu"), "--out", str(first)]) == 0
    assert main(["combine", "pods", str(first), str(runs / "plain"), "--out", str(second)]) == 0
    card = load_checkpoint(second, VERSION).card
    assert card.config["experts"] == ["gpu@12", "small"] and card.trained_on == ("gpu@12", "small")


def test_an_expert_that_is_named_first_takes_the_place_of_one_that_was_there(
    runs: Path, tmp_path: Path
) -> None:
    """Also for objectives that the former one only stood in for."""
    before, after = tmp_path / "before", tmp_path / "after"
    gpu = str(runs / "gpu")
    assert main(["combine", "pods", gpu, "first_fit=small,medium", "--out", str(before)]) == 0
    assert main(["combine", "pods", gpu, "best_fit=small", str(before), "--out", str(after)]) == 0
    checkpoint, former = load_checkpoint(after, VERSION), load_checkpoint(before, VERSION)
    assert checkpoint.card.config == {
        "experts": ["gpu@12", "small", "medium"],
        "objectives": ["gpu_allocation", "completion"],
        "trained": {"gpu@12": ["gpu_allocation"], "small": ["completion"], "medium": ["completion"]},
    }
    small, medium = checkpoint.tensors["weights"][:, 1], checkpoint.tensors["weights"][:, 2]
    best_fit = weights_of_rule("best_fit")
    assert small == pytest.approx(np.stack([best_fit, best_fit]) * LENGTH / np.linalg.norm(best_fit[0]))
    assert (medium == former.tensors["weights"][:, 2]).all()


def test_a_run_for_another_measure_gives_the_expert_that_is_there_another_objective(
    runs: Path, tmp_path: Path
) -> None:
    """Also for workloads that it was not trained on; what there was before stays as it was."""
    first, second, third = (tmp_path / name for name in ("first", "second", "third"))
    sources = ["first_fit=small,medium", str(runs / "gpu")]
    assert main(["combine", "pods", *sources, "--out", str(first)]) == 0
    plain = f"{runs / 'plain'}=small,medium"
    assert main(["combine", "pods", str(first), plain, "--out", str(second)]) == 0
    checkpoint, before = load_checkpoint(second, VERSION), load_checkpoint(first, VERSION)
    assert checkpoint.card.config["objectives"] == ["completion", "wait", "gpu_allocation"]
    assert checkpoint.card.config["trained"] == {
        "small": ["completion", "wait"],
        "medium": ["completion", "wait"],
        "gpu@12": ["gpu_allocation"],
    }
    usual, waits, _ = checkpoint.tensors["weights"]
    assert (usual == before.tensors["weights"][0]).all()
    assert (waits[0] == waits[1]).all() and (waits[0] != usual[0]).any()
    assert (waits[2] == usual[2]).all()  # stands in
    assert main(["combine", "pods", str(second), "--out", str(third)]) == 0
    assert load_checkpoint(third, VERSION).card.config == checkpoint.card.config


def test_a_rule_and_a_checkpoint_are_experts_for_what_they_are_told(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, both = f"{runs / 'gpu' / 'best'}=gpu@12,gpu@20", tmp_path / "both"
    assert main(["combine", "pods", source, "first_fit=small", "--out", str(both)]) == 0
    capsys.readouterr()
    card = load_checkpoint(both, VERSION).card
    assert card.config["experts"] == ["gpu@12", "gpu@20", "small"] and card.trained_on == ("gpu@12",)
    for name, expert in (("gpu@20", str(runs / "gpu")), ("small", "first_fit")):
        scenario = parse_scenario(name, None)
        work = scenario.of_part("train").load(0)
        alone, together = (
            simulate(work, make_policy(policy), scenario.options).measures for policy in (expert, str(both))
        )
        assert {**together, "decisions_per_s": 0.0} == {**alone, "decisions_per_s": 0.0}


def test_what_an_expert_knows_of_gaps_comes_along(runs: Path, tmp_path: Path) -> None:
    """Beside one that knows nothing of them, and when it joins others a second time."""
    kept = load_checkpoint(runs / "gpu" / "best", VERSION)
    gaps = 50.0 * np.random.default_rng(0).normal(size=LEVELS)
    knowing, first, second = tmp_path / "knowing", tmp_path / "first", tmp_path / "second"
    save_checkpoint(knowing, Checkpoint(kept.card, {**kept.tensors, "gaps": gaps}))
    assert main(["combine", "pods", f"{knowing}=gpu@12", "first_fit=small", "--out", str(first)]) == 0
    assert main(["combine", "pods", str(first), str(runs / "plain"), "--out", str(second)]) == 0
    scenario = parse_scenario("gpu@12", None)
    work = scenario.of_part("train").load(0)
    plain, alone, once, twice = (
        {**simulate(work, make_policy(str(path)), scenario.options).measures, "decisions_per_s": 0.0}
        for path in (runs / "gpu", knowing, first, second)
    )
    assert alone != plain and once == alone and twice == alone
    small = parse_scenario("small", None)
    unknowing = make_policy(str(first))
    assert isinstance(unknowing, RulePolicy) and unknowing.options.linear is not None
    assert unknowing.options.linear.gaps_for(small.of_part("train").load(0)) == pytest.approx(0.0, abs=1e-9)


def test_an_imitation_is_an_expert_for_what_decides_there(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="needs the extra learn")
    run, out = tmp_path / "run", tmp_path / "out"
    words = ("train", "pods", "--algo", "imitate", "--scenarios", "gpu@6", "--teacher", "learned")
    few = ("--steps", "40", "--round-steps", "40", "--validation-seeds", "1", "--confirm-seeds", "2")
    assert main([*words, *few, "--out", str(run)]) == 0
    assert main(["combine", "pods", str(run), "--out", str(out)]) == 0
    assert load_checkpoint(out, VERSION).card.config["objectives"] == ["gpu_allocation"]


def test_a_policy_without_weights_is_no_expert(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["combine", "pods", "kube=small", "--out", str(tmp_path / "x")]) == 2
    assert (
        "kube: it has no weights; checkpoints of es and imitate have, and fgd, best_fit"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("", "name at least one training run"),
        ("nowhere", "there is neither a checkpoint nor a training run"),
        ("gpu/best", "name the folder of the training run"),
        ("gpu=mars", "unknown scenario 'mars'"),
    ],
)
def test_what_cannot_be_combined_is_told_in_one_line(
    source: str, says: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(runs / source)] if source else []
    capsys.readouterr()
    assert main(["combine", "pods", *words, "--out", str(tmp_path / "x")]) == 2
    message = capsys.readouterr().err
    assert says in message and message.count("\n") == 1
