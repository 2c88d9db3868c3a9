"""The evolution strategy starts from the rule, improves on it, and resumes to the very same result."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.cli.main import main
from proreus.learning.es import Generation, evolve
from proreus.model.errors import UsageError
from proreus.policies.checkpoint import Card, Checkpoint, save_checkpoint
from proreus.worlds.pods.encoding.pair import VERSION
from proreus.worlds.pods.play import simulate
from proreus.worlds.pods.policies.catalogue import make_policy
from proreus.worlds.pods.policies.checkpoint_tensors import linear_tensors
from proreus.worlds.pods.policies.rules.policy import RulePolicy
from proreus.worlds.pods.scenarios import Generated, PodScenario
from proreus.worlds.pods.simulation.world import PodsOptions
from proreus.worlds.pods.state.compile import compile_workload
from proreus.worlds.pods.state.devices import LEVELS
from proreus.worlds.pods.training.goal import ESConfig, PodsGoal, as_scorer, run_candidate, starting_point
from tests.inline_pool import InlinePool

SCENARIO = PodScenario(Generated("gpu", 12), PodsOptions(drop_failures=True))
WORK = compile_workload(SCENARIO.source.load(0))


@pytest.fixture
def pool() -> InlinePool:
    """What is tested is the search, not the workers."""
    return InlinePool()


def searched(
    config: ESConfig, pool: InlinePool, past: list[tuple[float, ...]] | None = None
) -> list[Generation]:
    """The generations of a search."""
    return list(evolve(config, PodsGoal(config, (SCENARIO,), pool), past or ()))


def test_the_search_starts_from_the_rule() -> None:
    """At the starting point the scorer allocates what FGD allocates, up to how it breaks ties."""
    usual = np.zeros(4)
    for seed in (5, 6, 7):
        start = run_candidate(
            SCENARIO, seed, as_scorer(starting_point(ESConfig(), WORK), usual), "gpu_allocation_peak"
        )
        rule = run_candidate(SCENARIO, seed, None, "gpu_allocation_peak")
        assert start == pytest.approx(rule, abs=0.8)


def test_the_search_improves_on_the_rule(pool: InlinePool) -> None:
    config = ESConfig(generations=8, population=10, train_seeds=3, validation_seeds=6, evaluate_every=8)
    judged = searched(config, pool)[-1].validation
    assert judged is not None
    assert judged["gpu@12"] > 0.1


def test_a_resumed_search_is_the_unbroken_one_bit_for_bit(pool: InlinePool) -> None:
    config = ESConfig(generations=5, population=6, train_seeds=2, validation_seeds=1, evaluate_every=5)
    whole = searched(config, pool)
    rest = searched(config, pool, [generation.fitness for generation in whole[:3]])
    assert [generation.number for generation in rest] == [3, 4]
    assert rest[-1].fitness == whole[-1].fitness
    assert rest[-1].tensors()["weights"].tobytes() == whole[-1].tensors()["weights"].tobytes()


def test_a_search_may_start_from_what_was_learned_before() -> None:
    learned = make_policy("learned")
    assert isinstance(learned, RulePolicy) and learned.options.linear is not None
    start = starting_point(ESConfig(start="learned"), WORK)
    assert start.tolist() == learned.options.linear.weights_for(WORK).ravel().tolist()
    with pytest.raises(UsageError, match="--start kube: it has no weights"):
        starting_point(ESConfig(start="kube"), WORK)


def test_a_search_from_a_start_that_knows_of_gaps_keeps_them(pool: InlinePool, tmp_path: Path) -> None:
    gaps = 50.0 * np.random.default_rng(0).normal(size=LEVELS)
    knowing = replace(as_scorer(starting_point(ESConfig(), WORK), np.zeros(4)), gaps=gaps)
    card = Card(world="pods", kind="linear", algorithm="imitate", encoding=VERSION)
    save_checkpoint(tmp_path / "start", Checkpoint(card, dict(linear_tensors(knowing))))
    goal = PodsGoal(ESConfig(start=str(tmp_path / "start"), validation_seeds=2), (SCENARIO,), pool)
    assert goal.tensors(goal.start)["gaps"].tolist() == gaps.tolist()
    plain = PodsGoal(ESConfig(validation_seeds=2), (SCENARIO,), pool)
    assert goal.start.tolist() == plain.start.tolist()
    assert goal.validate(goal.start) != plain.validate(plain.start)
    assert "gaps" not in plain.tensors(plain.start)


def test_without_gpus_the_search_starts_from_best_fit_and_less_waiting_is_better(pool: InlinePool) -> None:
    scenario = PodScenario(Generated("small"), PodsOptions())
    usual = np.zeros(4)
    start = as_scorer(starting_point(ESConfig(), scenario.load(0)), usual)
    waits = [run_candidate(scenario, 1, scorer, "wait_mean") for scorer in (start, None)]
    assert waits[0] == pytest.approx(waits[1], rel=0.2) and waits[1] < 0.0
    goal = PodsGoal(ESConfig(measure="wait_mean"), (scenario,), pool)
    (gain,), _ = goal.fitness([goal.start], [1])
    worse, _ = goal.fitness([-goal.start], [1])
    assert worse[0] < gain


def test_a_member_is_tried_on_as_many_seeds_of_each_scenario_as_it_has_episodes(pool: InlinePool) -> None:
    goal = PodsGoal(ESConfig(episodes=3, train_seeds=50), (SCENARIO,), pool)
    drawn = goal.draw(np.random.default_rng(0))
    assert len(drawn) == 3 and len(set(drawn)) > 1
    once = PodsGoal(ESConfig(), (SCENARIO,), pool)
    each = [once.fitness([-goal.start], [seed])[0][0] for seed in drawn]
    assert goal.fitness([-goal.start], drawn)[0][0] == pytest.approx(np.mean(each))
    with pytest.raises(UsageError, match="episodes"):
        ESConfig(episodes=0)


def test_weights_shift_with_the_demand() -> None:
    vector = np.concatenate([starting_point(ESConfig(), WORK), np.ones(4 * 4 * 28)])
    scorer = as_scorer(vector, np.zeros(4))
    shifted = scorer.weights_for(WORK) - scorer.weights
    assert np.ptp(shifted) == pytest.approx(0.0, abs=1e-12) and shifted.max() > 0.1


def fitness_of(run: Path) -> list[list[float]]:
    """The fitness values in a run's journal."""
    return [json.loads(line)["fitness"] for line in (run / "journal.jsonl").read_text().splitlines()]


@pytest.mark.usefixtures("workers_here")
def test_train_resumes_and_its_checkpoint_plays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`proreus train`, stopped after two generations and resumed, ends like an unbroken run."""
    flags = ["--scenarios", "gpu@6", "--population", "4", "--train-seeds", "2", "--validation-seeds", "1"]
    flags += ["--evaluate-every", "1", "--processes", "1"]
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert main(["train", "pods", *flags, "--generations", "3", "--out", str(whole)]) == 0
    shutil.copytree(whole, broken)
    # As if it had been killed while it wrote the fourth line of its journal.
    journal = broken / "journal.jsonl"
    lines = journal.read_text().splitlines(keepends=True)
    journal.write_text("".join(lines[:3]) + lines[3][:10])
    assert main(["train", "pods", "--processes", "1", "--resume", str(broken)]) == 0
    assert fitness_of(whole) == fitness_of(broken)
    weights = [(run / "best/weights.safetensors").read_bytes() for run in (whole, broken)]
    assert weights[0] == weights[1]
    policy = make_policy(str(whole / "best"))
    outcome = simulate(compile_workload(SCENARIO.source.load(1)), policy, SCENARIO.options)
    assert outcome.measures["gpu_allocation_peak"] > 50
    picture = tmp_path / "curve.png"
    assert main(["curve", str(whole), str(broken), "--out", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert main(["curve", str(tmp_path), "--out", str(picture)]) == 2
    capsys.readouterr()
    assert main(["train", "pods", *flags, "--generations", "3", "--out", str(whole)]) == 2
    assert "holds a run already" in capsys.readouterr().err
    assert main(["train", "pods", "--resume", str(tmp_path)]) == 2
    assert "settings.json: cannot be resumed" in capsys.readouterr().err
