"""The evolution for virtual machines starts at first fit, learns, and resumes to the very same result."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import Executor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.cli.main import main
from proreus.learning.es import Generation, evolve
from proreus.model.errors import UsageError, WorkError
from proreus.workers.processes import Workers, pool_of
from proreus.worlds.vms.encoding.figures import Stage
from proreus.worlds.vms.encoding.place import FEATURES
from proreus.worlds.vms.play import RUN_WAIT, briefly
from proreus.worlds.vms.policies.catalogue import rule_policy
from proreus.worlds.vms.policies.columns import GAPS, LEARNED
from proreus.worlds.vms.policies.experts import VmScorer
from proreus.worlds.vms.policies.policy import VmRulePolicy
from proreus.worlds.vms.simulation.runs import planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS, with_servers
from proreus.worlds.vms.training.goal import VmsESConfig, VmsGoal, Weighs, member_runs
from proreus.worlds.vms.training.objective import Aim
from proreus.worlds.vms.training.training_trace import TrainingTrace, evenly, held_out, training_stretches
from tests.inline_pool import InlinePool

TRACE = TrainingTrace(machines=6_000, seed=11)
WORK = TRACE.work(SCENARIOS["waiting"].double)
OPTIONS = with_servers(SCENARIOS["waiting"], 3)
SMALL = VmsESConfig(generations=6, population=8, starts=24, validation_starts=60, evaluate_every=3, seed=2)


@pytest.fixture
def pool() -> Iterator[Executor]:
    with pool_of(Workers(2), 8, threads=True) as two:
        yield two


def searched(config: VmsESConfig, pool: Executor, past: list[tuple[float, ...]]) -> list[Generation]:
    return list(evolve(config, VmsGoal(config, TRACE, OPTIONS, pool), past))


def test_without_weights_the_scorer_is_first_fit() -> None:
    runs = planned_runs(WORK, OPTIONS, np.arange(0, 3_000, 100))
    blank = VmRulePolicy("blank", LEARNED, weights=np.zeros(len(FEATURES)))
    scored, ruled = (rows[:, RUN_WAIT] for rows in briefly(runs, [blank, rule_policy("first_fit")]))
    assert scored.tolist() == ruled.tolist() and ruled.sum() > 0


def test_the_search_learns_to_wait_less_than_it_started_with(pool: Executor) -> None:
    generations = searched(SMALL, pool, [])
    assert [generation.number for generation in generations] == list(range(6))
    assert [generation.validation is not None for generation in generations] == [False, False, True] * 2
    assert all(
        generation.counts["decisions"] > 0 and (generation.mean != 0).any() for generation in generations
    )
    runs = planned_runs(WORK, OPTIONS, evenly(0, 2_700, 90, 0.3))
    learned = VmRulePolicy("learned", LEARNED, weights=generations[-1].mean)
    new, old = (rows[:, RUN_WAIT] for rows in briefly(runs, [learned, rule_policy("random")]))
    assert np.log1p(new).mean() < np.log1p(old).mean() - 0.1


@pytest.mark.parametrize(("weighs", "kind"), [("places", LEARNED), ("gaps", GAPS)])
def test_where_machines_are_turned_away_fewer_of_them_are(weighs: Weighs, kind: int, pool: Executor) -> None:
    options = with_servers(SCENARIOS["rejecting"], 2)
    config = replace(SMALL, starts=6, validation_starts=6, limit=800, weighs=weighs)
    generations = list(evolve(config, VmsGoal(config, TRACE, options, pool)))
    runs = planned_runs(WORK, options, evenly(0, 2_700, 20, 0.3), 800)
    learned = VmRulePolicy("learned", kind, weights=generations[-1].mean)
    aim = Aim("reject", "log")
    new, old = (aim.measure(rows) for rows in briefly(runs, [learned, rule_policy("first_fit")]))
    assert 0 < new < old


def test_a_resumed_search_is_the_unbroken_one_bit_for_bit(pool: Executor) -> None:
    whole = searched(SMALL, pool, [])
    rest = searched(SMALL, pool, [generation.fitness for generation in whole[:4]])
    assert [generation.number for generation in rest] == [4, 5]
    for one, other in zip(whole[4:], rest, strict=True):
        assert one.fitness == other.fitness and (one.mean == other.mean).all()
    assert searched(SMALL, InlinePool(), [])[-1].fitness == whole[-1].fitness


def test_starts_are_even_and_stay_in_their_part() -> None:
    assert evenly(100, 200, 4, 0.0).tolist() == [100, 125, 150, 175]
    assert evenly(100, 200, 4, 0.99).tolist() == [124, 149, 174, 199]


def test_settings_that_mean_nothing(tmp_path: Path) -> None:
    for wrong in ({"generations": 0}, {"sigma": 0.0}, {"servers": (0,)}, {"starts": -1}, {"limit": -1}):
        with pytest.raises(UsageError):
            VmsESConfig(**wrong)
    with pytest.raises(UsageError, match="calm means something where machines are turned away"):
        VmsGoal(replace(SMALL, stage="calm"), TRACE, OPTIONS, InlinePool())
    with pytest.raises(UsageError, match="3 are for generated machines"):
        VmsGoal(replace(SMALL, traces=3), TrainingTrace(tmp_path / "trace.csv"), OPTIONS, InlinePool())


def test_many_traces_are_other_ones_every_time_and_none_is_judged_on() -> None:
    random = np.random.default_rng(1)
    drawn = [training_stretches(TRACE, 7, 3, random) for _ in range(2)]
    held = [held_out(TRACE, purpose, 40, 3) for purpose in ("choose", "confirm")]
    assert [len(stretches) for stretches in (*drawn, *held)] == [3, 3, 20, 20]
    seeds = [trace.seed for stretches in (*drawn, *held) for trace, _ in stretches]
    assert len(set(seeds)) == len(seeds)
    assert all(starts.size == 3 and 0 <= starts[0] <= starts[-1] < 20_000 for trace, starts in drawn[0])
    assert all(starts.size == 2 for trace, starts in held[0])


@pytest.mark.parametrize("stage", ["calm", "crowded"])
def test_what_is_trained_for_one_stage_leaves_the_other_to_worst_fit(stage: Stage) -> None:
    """Two servers are full all the time; twelve are taken to be, until they have been seen for a while."""
    scorer = VmScorer(LEARNED, np.random.default_rng(4).normal(size=len(FEATURES)))
    for size in (2, 12):
        options = with_servers(SCENARIOS["rejecting"], size)
        runs = planned_runs(WORK, options, np.array([0]), 6_000)
        plan = (runs.starts, runs.limits)
        (played, _), (always, _) = (
            member_runs(TRACE, options, (scorer, trained_for), plan) for trained_for in (stage, "both")
        )
        (worst,) = briefly(runs, [rule_policy("worst_fit")])
        if size == 2:
            assert played.tolist() == (always if stage == "crowded" else worst).tolist()
        else:
            assert played.tolist() not in (worst.tolist(), always.tolist())


def test_a_search_on_many_traces_resumes_to_the_same_result() -> None:
    options = with_servers(SCENARIOS["rejecting"], 2)
    config = replace(SMALL, generations=3, population=4, starts=2, traces=2, validation_starts=20, limit=200)
    whole = list(evolve(config, VmsGoal(config, TRACE, options, InlinePool())))
    past = [generation.fitness for generation in whole[:2]]
    rest = list(evolve(config, VmsGoal(config, TRACE, options, InlinePool()), past))
    assert rest[-1].fitness == whole[-1].fitness and whole[-1].validation is not None


def test_a_search_that_goes_another_way_here_is_not_gone_on_with() -> None:
    """Fitness values of members that are not drawn here would be taken for those of the members that are."""
    options = with_servers(SCENARIOS["rejecting"], 2)
    config = replace(SMALL, generations=3, population=4, starts=2, validation_starts=20, limit=200)
    whole = list(evolve(config, VmsGoal(config, TRACE, options, InlinePool())))
    past, probes = [each.fitness for each in whole[:2]], [each.probe for each in whole[:2]]
    goal = VmsGoal(config, TRACE, options, InlinePool())
    rounded = [probe + 1e-9 for probe in probes]
    assert next(evolve(config, goal, past, probes=rounded)).fitness == whole[-1].fitness
    assert next(evolve(config, goal, past, probes=[None])).fitness == whole[-1].fitness
    with pytest.raises(WorkError, match="generation 2 goes another way here"):
        next(evolve(config, goal, past, probes=[probes[0], probes[1] + 0.01]))


def test_a_run_is_kept_resumed_and_played(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    words = ("train", "vms", "--scenario", "waiting@2", "--population", "4", "--starts", "4")
    small = (*words, "--validation-starts", "6", "--evaluate-every", "1", "--processes", "1")
    assert main((*small, "--generations", "2", "--out", str(run), "--json", str(tmp_path / "r.json"))) == 0
    assert json.loads((tmp_path / "r.json").read_text())["decisions"] > 0
    journal = (run / "journal.jsonl").read_text().splitlines()
    assert len(journal) == 3
    card = json.loads((run / "best" / "card.json").read_text())
    assert (card["world"], card["kind"], card["encoding"]) == ("vms", "linear", "vms-1")
    # As if it had been interrupted after the first generation.
    (run / "journal.jsonl").write_text("\n".join(journal[:2]) + "\n")
    assert main(("train", "vms", "--resume", str(run), "--processes", "1")) == 0
    again = [json.loads(line)["fitness"] for line in (run / "journal.jsonl").read_text().splitlines()]
    assert again == [json.loads(line)["fitness"] for line in journal]
    assert main((*small, "--generations", "2", "--out", str(run))) == 2
    assert "holds a run already" in capsys.readouterr().err
    play = ("simulate", "vms", "--scenario", "waiting@2", "--starts", "2", "--policy", str(run))
    assert main(play) == 0
    settings = json.loads((run / "settings.json").read_text())
    (run / "settings.json").write_text(json.dumps({**settings, "world": "pods"}))
    assert main(("train", "vms", "--resume", str(run))) == 2
    assert "a run of the world 'pods', not of 'vms'" in capsys.readouterr().err


def test_a_run_that_weighs_gaps_says_so(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = (
        "train",
        "vms",
        "--scenario",
        "rejecting@2",
        "--weighs",
        "gaps",
        "--population",
        "4",
        "--limit",
        "900",
    )
    few = ("--starts", "2", "--validation-starts", "2", "--confirm-starts", "2", "--generations", "1")
    assert main((*words, *few, "--processes", "1", "--out", str(run))) == 0
    card = json.loads((run / "best" / "card.json").read_text())
    assert (card["kind"], card["encoding"]) == ("gaps", "gaps-1")
    assert main(("simulate", "vms", "--scenario", "rejecting@2", "--limit", "60", "--policy", str(run))) == 0
