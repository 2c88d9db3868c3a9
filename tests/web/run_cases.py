"""Folders that a dashboard shows in tests: a comparison, a training run, a store; some names are markup."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proreus.compare.outputs import write_outputs
from proreus.serving.admission import RequestAdmission
from proreus.serving.allowed_hosts import Visitors
from proreus.serving.metrics import Measurements
from proreus.serving.server.http import HttpApp
from proreus.serving.server.rest_server import RestServer
from proreus.web.dashboard import Dashboard, DashboardOptions
from proreus.worlds.pods.policies.vector.model import checkpoint_of, fresh_scorer
from tests.compare.compare_cases import made
from tests.serving.serving_cases import a_store

HOSTILE = "<img src=x onerror=alert(1)>"
TOKEN = "a-token-of-the-dashboard"


def run_folders(root: Path) -> Path:
    """One of each."""
    runs = root / "runs"
    values = {"jct_mean": [12.5, 13.0, 11.5], "wait_mean": [1.0, 2.0, 3.0]}
    policies = {"kube": values, "best_fit": {"jct_mean": [11.0, 12.0, 10.0], "wait_mean": [1.0, 1.5, 2.0]}}
    comparison = made({**policies, HOSTILE: values}, scenarios=("small", HOSTILE))
    write_outputs(comparison, runs / "compared", f"proreus compare {HOSTILE}")
    training_run(runs / f"trained {HOSTILE.replace('/', '')}")
    store = a_store(runs / "models")
    store.add("vector", checkpoint_of(fresh_scorer(2), "none"), f"second {HOSTILE}", parent=1)
    return runs


def training_run(folder: Path) -> None:
    """A run of three generations that goes on."""
    folder.mkdir(parents=True)
    settings = {
        "world": "pods",
        "algorithm": "es",
        "kind": "linear",
        "seed": 3,
        "config": {"population": HOSTILE},
    }
    (folder / "settings.json").write_text(json.dumps({**settings, "scenarios": [{"name": HOSTILE}]}))
    journal = [{"generation": -1, "fitness": [], "validation": {HOSTILE: 0.0}}]
    journal += [{"generation": at, "fitness": [at / 2], "validation": {HOSTILE: at / 4}} for at in range(3)]
    write_journal(folder, journal)


def write_journal(folder: Path, journal: list[dict[str, object]]) -> None:
    (folder / "journal.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in journal))


@contextmanager
def shown(runs: Path, token: str = "") -> Iterator[str]:
    """A dashboard over these folders, as `proreus dashboard` opens it; its address."""
    dashboard = Dashboard(DashboardOptions("alone", (runs,)))
    visitors = Visitors.of("127.0.0.1", (), token=bool(token), anonymous_updates=False)
    admission = RequestAdmission(token.encode() or None)
    server = RestServer(HttpApp({}, admission, Measurements(), visitors=visitors, pages=dashboard))
    port = server.start("127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{port}/"
    finally:
        dashboard.close()
        server.stop(1.0)
