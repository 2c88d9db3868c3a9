"""`proreus tune`: from a user's files to a report and, where it is worth having, a checkpoint."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.worlds.pods.training.goal import ESConfig
from proreus.worlds.pods.training.specialist import SPECIALIST
from tests.cli.runner import Proreus
from tests.inline_pool import InlinePool

SHARES = (650, 320, 470, 1000, 810)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three nodes of two GPUs and sixty jobs; training runs in this process."""
    monkeypatch.setattr("proreus.compare.tuning.pool_of", lambda *given, **named: InlinePool())
    short = ESConfig(generations=2, population=4, train_seeds=1, validation_seeds=1, evaluate_every=1)
    quick = replace(SPECIALIST, learner=replace(SPECIALIST.learner, configs=(short,)))
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
    words = ("--from", str(work), "--minutes", "0.001", "--seeds", "2", "--out", "out", "--processes", "1")
    ended = proreus("tune", "pods", *words, "--json", "told.json")
    assert (ended.code, ended.err) == (0, "")
    assert "best rule: " in ended.out and "start: held out" in ended.out
    told = json.loads(Path("told.json").read_text())
    assert told["measure"] == "gpu_allocation_peak" and told["best_rule"] in told["means"]
    assert {"learned", "candidate", "fgd", "kube"} <= set(told["means"])
    page = Path("out/report.md").read_text()
    assert page.startswith("# openb:jobs.csv: use ") and "## What to watch" in page
    assert Path("out/candidate/card.json").exists() == (told["advice"] == "candidate")


def test_where_gpus_do_not_decide_the_best_rule_is_named(proreus: Proreus) -> None:
    ended = proreus("tune", "pods", "--from", "small@3", "--seeds", "2", "--out", "out", "--processes", "1")
    assert (ended.code, ended.err) == (0, "")
    assert "Nothing was trained" in Path("out/report.md").read_text()
    assert not Path("out/candidate").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("pods",), "--from: name your work"),
        (("vms", "--from", "x"), "nothing can be trained for you in the world 'vms', but in pods"),
        (("pods", "--from", "gpu@5", "--minutes", "0"), "--minutes 0"),
        (("pods", "--from", "nowhere.csv"), "the format openb needs a file of nodes"),
        (("pods", "--from", "nowhere"), "unknown scenario 'nowhere'"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(words: tuple[str, ...], told: str, proreus: Proreus) -> None:
    ended = proreus("tune", *words)
    assert ended.code == 2 and told in ended.err and len(ended.err.splitlines()) == 1
