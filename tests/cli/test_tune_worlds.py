"""`proreus tune` in worlds other than `pods`: what is read, which measure decides, and what is handed out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.cli.arguments import flags_in
from proreus.learning.specialist import Search, Specialist, TrainedSpecialist
from proreus.policies.checkpoint import Checkpoint
from proreus.worlds.functions.training.goal import FunctionsESConfig
from proreus.worlds.functions.training.specialist import SPECIALIST as INSTANCES
from proreus.worlds.rebalance.windows.training.goal import MovesESConfig
from proreus.worlds.rebalance.windows.training.specialist import SPECIALIST as MOVES
from proreus.worlds.vms.encoding.place import FEATURES
from proreus.worlds.vms.training.goal import VmsESConfig
from proreus.worlds.vms.training.specialist import SPECIALIST as SCORER
from proreus.worlds.workflows.training.goal import WorkflowsESConfig
from proreus.worlds.workflows.training.specialist import SPECIALIST as TASKS
from tests.cli.runner import Proreus
from tests.inline_pool import InlinePool

SHORT = ("--minutes", "0.001", "--seeds", "5", "--out", "out", "--processes", "1", "--json", "told.json")
MACHINES = 600


def quick(specialist: Specialist, config: Any) -> Specialist:
    """The same with a search of two small generations."""
    learners = {name: replace(learner, configs=(config,)) for name, learner in specialist.learners.items()}
    return replace(specialist, learners=learners)


@pytest.fixture(autouse=True)
def short_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proreus.compare.tune.pool_of", lambda *given, **named: InlinePool())
    machines = VmsESConfig(generations=2, population=4, starts=2, validation_starts=2, evaluate_every=1)
    scorers = quick(SCORER, machines)
    gaps = replace(scorers.learners["rejected"], configs=(replace(machines, weighs="gaps"),))
    scorers = replace(scorers, learners={**scorers.learners, "rejected": gaps})
    monkeypatch.setattr("proreus.worlds.vms.training.specialist.SPECIALIST", scorers)
    moves = MovesESConfig(generations=2, population=4, deployments=1, validation_seeds=1, evaluate_every=1)
    where = "proreus.worlds.rebalance.windows.training.specialist.SPECIALIST"
    monkeypatch.setattr(where, quick(MOVES, moves))
    few = {
        "generations": 2,
        "population": 4,
        "hidden": 2,
        "runs": 1,
        "validation_runs": 1,
        "evaluate_every": 1,
    }
    where = "proreus.worlds.functions.training.specialist.SPECIALIST"
    monkeypatch.setattr(where, quick(INSTANCES, FunctionsESConfig(**few)))
    where = "proreus.worlds.workflows.training.specialist.SPECIALIST"
    monkeypatch.setattr(where, quick(TASKS, WorkflowsESConfig(**few)))


def write_machines(file: Path, count: int = MACHINES) -> Path:
    """A machine every ten seconds for some minutes: small ones, and now and then one for a whole node."""
    draw = np.random.default_rng(1)
    cores = draw.choice((1, 1, 1, 1, 2, 8), count)
    rows = [f"vm-{k},{c},{2 * c},{10 * k},{draw.integers(50, 900)}" for k, c in enumerate(cores)]
    file.write_text("\n".join(["vmid,cpu,mem,at,lt", *rows]) + "\n")
    return file


def write_requests(file: Path, windows: int) -> Path:
    """Six pods of different weight, two requests of each in every window."""
    draw = np.random.default_rng(1)
    rows = [
        f"{300 * window + 100 * half},pod-{pod},{draw.uniform(1, 4 + 2 * pod):.2f},{draw.uniform(1, 9):.2f}"
        for window in range(windows)
        for half in range(2)
        for pod in range(6)
    ]
    file.write_text("\n".join(["time,pod,cpu,mem", *rows]) + "\n")
    return file


def advice() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(Path("told.json").read_text())
    return document


@pytest.mark.parametrize(
    ("scenario", "measure", "words"),
    [
        ("waiting@2", "total_wait", "Total waiting time of a run"),
        ("rejecting@2", "rejected", "Machines turned away"),
        ("recovering@2", "placements", "Machines placed in a run"),
    ],
)
def test_each_kind_of_cluster_is_judged_by_its_own_measure(
    scenario: str, measure: str, words: str, proreus: Proreus
) -> None:
    file = write_machines(Path("mine.csv"))
    cluster = ("--scenario", scenario, "--servers", "2x8/16", "--double", "mem>100")
    ended = proreus("tune", "vms", "--from", str(file), *cluster, *SHORT)
    assert (ended.code, ended.err) == (0, "")
    result, page = advice(), Path("out/report.md").read_text()
    assert result["measure"] == measure and result["training"] in ("judged", "start stayed")
    assert page.startswith(f"# {scenario}:mine.csv: use ") and f"| policy | {words}" in page
    assert {"first_fit", "balance_fit", "learned"} <= set(result["means"])
    assert Path("out/candidate/card.json").exists() == (result["advice"] == "candidate")


def test_machines_without_a_file_are_generated_and_tuned_for(proreus: Proreus) -> None:
    ended = proreus("tune", "vms", "--from", "fading@20", *SHORT)
    assert (ended.code, ended.err) == (0, "") and advice()["scenario"] == "fading@20"


def test_windows_of_ones_own_are_judged_by_violations_and_migrations_are_told(proreus: Proreus) -> None:
    file = write_requests(Path("mine.csv"), 720)
    ended = proreus("tune", "rebalance", "--from", str(file), "--nodes", "3", *SHORT)
    assert (ended.code, ended.err) == (0, "")
    page = Path("out/report.md").read_text()
    assert advice()["measure"] == "violations" and page.startswith("# windows/serial:mine.csv: use ")
    assert "| policy | Requests served above the threshold, % | against " in page
    assert "| Migrations a window, 1/window |" in page and "only you know" in page


def write_recording(file: Path, seconds: int) -> Path:
    """Three functions, asked in turn, one of them twice as long."""
    rows = [f"{at},f{at % 3},{0.4 if at % 3 else 0.8}" for at in range(seconds)]
    file.write_text("\n".join(["arrival,function,duration", *rows]) + "\n")
    return file


def test_a_recording_of_functions_is_judged_by_its_objective(proreus: Proreus) -> None:
    file = write_recording(Path("mine.csv"), 600)
    ended = proreus("tune", "functions", "--from", str(file), "--scenario", "busy@30", *SHORT)
    assert (ended.code, ended.err) == (0, "")
    assert any(f"({start})" in ended.out for start in ("learned", "warm_cost"))
    page = Path("out/report.md").read_text()
    assert advice()["measure"] == "objective" and "| policy | Response time and cost together, % |" in page


@pytest.mark.parametrize(("scenario", "measure"), [("busy@2", "cost"), ("static", "slr")])
def test_workflows_are_judged_by_what_is_paid_or_how_long_it_takes(
    scenario: str, measure: str, proreus: Proreus
) -> None:
    ended = proreus("tune", "workflows", "--from", scenario, *SHORT)
    assert (ended.code, ended.err) == (0, "") and advice()["measure"] == measure
    assert ("Nothing was trained" in Path("out/report.md").read_text()) == (measure == "slr")


def test_what_is_worse_than_a_rule_is_not_handed_out(
    proreus: Proreus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def worse(search: Search, *given: Any) -> Iterator[TrainedSpecialist]:
        """Weights that spread the small ones, so that the large ones find no node."""
        weights = np.zeros(len(FEATURES))
        weights[FEATURES.index("scarcer free here")] = 1.0
        card = search.learner.identity((search.scenario,), (search.config,)).card({}, 1, 1.0)
        yield TrainedSpecialist(Checkpoint(card, {"weights": weights}), 1, "generation 1")

    monkeypatch.setattr("proreus.compare.tune.specialise", worse)
    file = write_machines(Path("mine.csv"), 1_500)
    cluster = ("--scenario", "waiting@4", "--servers", "4x8/16", "--double", "mem>100")
    ended = proreus("tune", "vms", "--from", str(file), *cluster, *SHORT)
    assert (ended.code, ended.err) == (0, "")
    result = advice()
    assert result["training"] == "judged" and result["gains"]["candidate"]["mean"] < 0
    assert result["advice"] != "candidate" and result["checkpoint"] is None
    assert not Path("out/candidate").exists() and not Path("out/unfinished").exists()
    assert "So what was trained is not handed out." in Path("out/report.md").read_text()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("vms",), "--from: name your work"),
        (("vms", "--from", "nowhere.csv"), "nowhere.csv: no such file"),
        (("vms", "--from", "few.csv"), "few.csv: 499 machines are too few to learn from one part"),
        (("vms", "--from", "torn.csv"), "torn.csv"),
        (("vms", "--from", "nowhere"), "unknown scenario 'nowhere'"),
        (("vms", "--from", "waiting@5", "--scenario", "fading"), "leave out --scenario"),
        (("vms", "--from", "waiting@5x3"), "without x"),
        (("vms", "--from", "waiting@5", "--seeds", "4"), "--seeds 4 is outside 5..1000"),
        (("rebalance", "--from", "nowhere.csv"), "nowhere.csv: no such file"),
        (("rebalance", "--from", "short.csv"), "windows of five minutes are too few to learn from one part"),
        (("rebalance", "--from", "snapshot"), "a snapshot is searched anew every time"),
        (("functions", "--from", "brief.csv"), "brief.csv: 60 s are too few to learn from one part"),
        (("workflows", "--from", "flows"), "flows: 1 workflows are too few to learn from some"),
    ],
)
def test_what_cannot_be_is_said_in_one_line(words: tuple[str, ...], said: str, proreus: Proreus) -> None:
    write_machines(Path("few.csv"), 499)
    write_requests(Path("short.csv"), 700)
    write_recording(Path("brief.csv"), 60)
    Path("flows").mkdir()
    Path("flows/one.json").write_text("{}")
    Path("torn.csv").write_text("vmid,cpu,mem,at,lt\nvm-0,1,2\n")
    ended = proreus("tune", *words, "--processes", "1")
    assert ended.code == 2 and said in ended.err and len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("world", ["vms", "rebalance", "functions", "workflows"])
def test_help_has_an_example_and_no_flag_that_tune_decides_itself(world: str, proreus: Proreus) -> None:
    ended = proreus("tune", world, "--help")
    assert ended.code == 0 and f"Example: proreus tune {world} --from" in " ".join(ended.out.split())
    assert not {"--split", "--trace", "--requests", "--files"} & set(flags_in(ended.out))
