"""`proreus tune`: from a user's files to a report and, where it is worth having, a checkpoint."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.compare.output_folder import only_one_writes
from proreus.compare.trials import TrialResult, TrialTask
from proreus.learning.specialist import Search, TrainedSpecialist
from proreus.policies.checkpoint import Checkpoint
from proreus.workers.processes import Workers
from proreus.worlds.pods.training.goal import ESConfig
from proreus.worlds.pods.training.specialist import SPECIALIST
from tests.cli.runner import Proreus
from tests.inline_pool import InlinePool

SHARES = (650, 320, 470, 1000, 810)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three nodes of two GPUs and sixty jobs; training runs in this process."""
    monkeypatch.setattr("proreus.compare.tune.pool_of", lambda *given, **named: InlinePool())
    short = ESConfig(generations=2, population=4, train_seeds=1, validation_seeds=1, evaluate_every=1)
    learners = {
        measure: replace(learner, configs=(replace(short, measure=measure),))
        for measure, learner in SPECIALIST.learners.items()
    }
    quick = replace(SPECIALIST, learners=learners)
    monkeypatch.setattr("proreus.worlds.pods.training.specialist.SPECIALIST", quick)
    folder = tmp_path / "mine"
    folder.mkdir()
    nodes = ["sn,cpu_milli,memory_mib,gpu,model", *(f"node-{n},32000,65536,2,T4" for n in range(3))]
    (folder / "nodes.csv").write_text("\n".join(nodes) + "\n")
    jobs = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time"]
    jobs += [f"job-{k},500,1024,1,{SHARES[k % 5]},,{k},{k + 100}" for k in range(60)]
    (folder / "jobs.csv").write_text("\n".join(jobs) + "\n")
    return folder


def test_a_folder_is_tuned_for_and_told_of_in_one_page(work: Path, proreus: Proreus) -> None:
    words = ("--from", str(work), "--minutes", "0.001", "--seeds", "5", "--out", "out", "--processes", "1")
    ended = proreus("tune", "pods", *words, "--json", "told.json")
    assert (ended.code, ended.err) == (0, "")
    assert "best rule: " in ended.out and "start: held out" in ended.out
    document = json.loads(Path("told.json").read_text())
    assert document["measure"] == "gpu_allocation_peak" and document["best_rule"] in document["means"]
    assert {"learned", "fgd", "kube"} <= set(document["means"])
    assert ("candidate" in document["means"]) == (document["training"] == "judged")
    page = Path("out/report.md").read_text()
    assert page.startswith("# openb:jobs.csv: use ") and "## What to watch" in page
    assert Path("out/candidate/card.json").exists() == (document["advice"] == "candidate")
    assert not Path("out/unfinished").exists()


def test_what_an_earlier_run_handed_out_is_kept(work: Path, proreus: Proreus) -> None:
    Path("out/candidate").mkdir(parents=True)
    Path("out/candidate/card.json").write_text("earlier")
    Path("out/report.md").write_text("earlier")
    ended = proreus("tune", "pods", "--from", "small@3", "--seeds", "5", "--out", "out", "--processes", "1")
    assert (ended.code, ended.err) == (0, "") and "is kept: out/earlier-1" in ended.out
    assert Path("out/earlier-1/candidate/card.json").read_text() == "earlier"
    assert Path("out/earlier-1/report.md").read_text() == "earlier"
    assert Path("out/report.md").read_text().startswith("# small@3: use ")


def test_two_do_not_share_a_folder(proreus: Proreus) -> None:
    with only_one_writes(Path("out")):
        ended = proreus("tune", "pods", "--from", "small@3", "--seeds", "5", "--out", "out")
    assert ended.code != 0 and "out: another run writes here now" in ended.err
    assert list(Path("out").iterdir()) == []


@pytest.mark.parametrize("gain", [1.0, -1.0])
def test_what_was_trained_is_no_checkpoint_called_candidate_until_it_is_judged(
    gain: float, work: Path, proreus: Proreus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A judge that adds `gain` to what was trained, and looks into the folder meanwhile."""
    seen: list[list[str]] = []

    def judge(tasks: Sequence[TrialTask], workers: Workers) -> tuple[TrialResult, ...]:
        trained = tasks[0].policies[0].startswith("out")
        if trained:
            seen.append(sorted(path.name for path in Path("out").iterdir()))
        shift = 100 * gain if trained else 0.0
        return tuple(
            TrialResult("work", name, task.seed, {"gpu_allocation_peak": 50 + shift + task.seed % 2}, None)
            for task in tasks
            for name in task.policies
        )

    def specialised(search: Search, *given: Any) -> Iterator[TrainedSpecialist]:
        identity = search.learner.identity((search.scenario,), (search.config,))
        yield TrainedSpecialist(
            Checkpoint(identity.card({}, 1, 1.0), {"weights": np.zeros(3)}), 1, "generation 1"
        )

    monkeypatch.setattr("proreus.compare.tune.run_trials", judge)
    monkeypatch.setattr("proreus.compare.tune.specialise", specialised)
    ended = proreus("tune", "pods", "--from", str(work), "--out", "out", "--processes", "1")
    assert (ended.code, ended.err, seen) == (0, "", [["unfinished"]])
    assert sorted(path.name for path in Path("out").iterdir()) == ["candidate"] * (gain > 0) + ["report.md"]


def test_where_gpus_do_not_decide_it_is_trained_for_what_does(work: Path, proreus: Proreus) -> None:
    words = ("--from", "small@3", "--seeds", "5", "--out", "out", "--processes", "1", "--minutes", "0.001")
    ended = proreus("tune", "pods", *words, "--json", "told.json")
    assert (ended.code, ended.err) == (0, "") and "start: held out" in ended.out
    document = json.loads(Path("told.json").read_text())
    assert document["measure"] == "jct_mean" and document["training"] in ("judged", "start stayed")
    assert "| policy | Completion time, mean, s |" in Path("out/report.md").read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("pods",), "--from: name your work"),
        (("inference", "--from", "nowhere"), "unknown scenario 'nowhere'"),
        (("pods", "--from", "gpu@5", "--minutes", "0"), "--minutes 0"),
        (("pods", "--from", "gpu@5", "--seeds", "4"), "--seeds 4 is outside 5..1000"),
        (("pods", "--from", "nowhere.csv"), "the format openb needs a file of nodes"),
        (("pods", "--from", "nowhere"), "unknown scenario 'nowhere'"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(words: tuple[str, ...], message: str, proreus: Proreus) -> None:
    ended = proreus("tune", *words)
    assert ended.code == 2 and message in ended.err and len(ended.err.splitlines()) == 1
