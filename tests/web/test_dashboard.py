"""The answers behind the pages: ids and never paths, writing with leave alone, a bounded playground."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("prometheus_client", reason="a dashboard needs the extra `serve`")

from proreus.httpserver.pages import PageRequest
from proreus.learning.improvement import Improvement
from proreus.model.errors import InputError, ProreusError, UsageError
from proreus.model.estimate import Estimate
from proreus.web.dashboard import Dashboard, DashboardOptions
from proreus.web.playground import runs as playground
from proreus.web.playground import worker
from proreus.web.playground.runs import Playground, PlaygroundLimits
from proreus.web.run_folders import Found, RunFolders
from proreus.web.training_runs import training_summary
from tests.serving.door_cases import ask, open_doors, serving_options
from tests.web.run_cases import HOSTILE, TOKEN, run_folders, shown, training_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One of each kind."""
    return run_folders(tmp_path_factory.mktemp("answered"))


@pytest.fixture(scope="module")
def dashboard(runs: Path) -> Iterator[Dashboard]:
    """Over them."""
    made = Dashboard(DashboardOptions("alone", (runs,)))
    yield made
    made.close()


def _asked(dashboard: Dashboard, path: str, body: Any = None, *, may_write: bool = False) -> tuple[int, Any]:
    sent = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = PageRequest("GET" if body is None else "POST", path, "me", sent, may_write)
    with ThreadPoolExecutor(1) as aside:  # this thread may have the browser's event loop
        reply = aside.submit(lambda: asyncio.run(dashboard.answer(request))).result()
    return reply.status, json.loads(reply.body)


def test_what_lies_in_the_folders_is_found(dashboard: Dashboard, runs: Path) -> None:
    _, about = _asked(dashboard, "about")
    assert (about["runs"], about["comparisons"], about["models"]) == (1, 1, ["runs/models"])
    _, listed = _asked(dashboard, "comparisons")
    (comparison,) = listed["items"]
    assert comparison["policies"] == ["kube", "best_fit", HOSTILE] and comparison["seeds"] == 3
    _, detail = _asked(dashboard, f"comparisons/{comparison['id']}")
    assert len(detail["runs"]["rows"]) == 2 * 3 * 3 and detail["report"]
    kept = [
        one for one in detail["differences"] if (one["scenario"], one["measure"]) == ("small", "jct_mean")
    ]
    assert [(one["policy"], one["baseline"]) for one in kept] == [
        ("kube", "best_fit"),
        ("best_fit", "kube"),
        (HOSTILE, "best_fit"),
    ]
    assert [one["mean"] for one in kept] == pytest.approx([4 / 3, -4 / 3, 4 / 3])
    assert [one["leads"] for one in kept] == [False, True, False]
    assert kept[1]["n"] == 3 and kept[1]["low"] < -4 / 3 < kept[1]["high"] < 0
    _, report = _asked(dashboard, f"comparisons/{comparison['id']}/report")
    assert set(report["replays"]) == {"replay-0", "replay-1"} and report["policies"] == comparison["policies"]
    _, listed = _asked(dashboard, "runs")
    _, run = _asked(dashboard, f"runs/{listed['items'][0]['id']}")
    assert run["best"] == {"mean": 0.5, "low": None, "high": None, "confirmed": False}
    assert run["judged"]["x"][0] == 0.0 and run["step"] == "generation" and run["trained"][-1] == [3.0, 1.0]


@pytest.mark.parametrize(
    ("said", "best"),
    [
        (Improvement(), None),
        (
            Improvement(Estimate(0.3, 0.1, 0.5, 9), {"a": Estimate(0.25, 0.1, 0.4, 9)}),
            {"mean": 0.25, "low": 0.1, "high": 0.4, "confirmed": True},
        ),
        (
            Improvement(
                Estimate(0.3, 0.1, 0.5, 9), {"a": Estimate(0.2, 0.1, 0.3, 9), "b": Estimate(0.4, 0.1, 0.7, 9)}
            ),
            {"mean": pytest.approx(0.3), "low": None, "high": None, "confirmed": True},
        ),
    ],
)
def test_a_run_that_has_ended_shows_the_gain_it_was_not_chosen_on(
    tmp_path: Path, said: Improvement, best: dict[str, Any] | None
) -> None:
    training_run(tmp_path / "run")
    (tmp_path / "run" / "improvement.json").write_text(json.dumps(said.to_json()))
    assert training_summary(Found("training", tmp_path / "run", "run"))["best"] == best


@pytest.mark.parametrize(
    "path",
    [
        "runs/..",
        "runs/%2e%2e",
        "comparisons/x",
        "comparisons/../../etc/passwd",
        "models/x/y/1/promote",
        "",
        "x",
    ],
)
def test_nothing_is_reached_by_a_path(dashboard: Dashboard, path: str) -> None:
    assert _asked(dashboard, path)[0] == 404
    assert dashboard.file(f"/static/../{path}") is None and dashboard.file(f"//{path}/x") is None


def test_links_lead_nowhere(tmp_path: Path, runs: Path) -> None:
    (tmp_path / "given").mkdir()
    (tmp_path / "given" / "link").symlink_to(runs)
    assert RunFolders((tmp_path / "given",)).all("training") == []
    with pytest.raises(InputError, match="holds neither"):
        RunFolders((tmp_path / "given",)).check()
    with pytest.raises(InputError, match="not a folder"):
        RunFolders((tmp_path / "nowhere",)).check()


def test_a_folder_that_cannot_be_read_says_so_and_the_others_are_shown(tmp_path: Path) -> None:
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "settings.json").write_text("{")
    (tmp_path / "worse").mkdir()
    (tmp_path / "worse" / "rows.json").write_text('{"world": "pods", "rows": [{"scenario": 3}]}')
    made = Dashboard(DashboardOptions("alone", (tmp_path,)))
    assert "settings.json" in _asked(made, "runs")[1]["items"][0]["trouble"]
    assert "rows.json" in _asked(made, "comparisons")[1]["items"][0]["trouble"]
    made.close()


def test_nobody_writes_without_leave(dashboard: Dashboard) -> None:
    (store,) = _asked(dashboard, "models")[1]["items"]
    path = f"models/{store['id']}/vector/2/promote"
    assert _asked(dashboard, path, {})[0] == 403
    assert _asked(dashboard, f"models/{store['id']}/vector/9/promote", {}, may_write=True)[0] == 409
    assert _asked(dashboard, f"models/{store['id']}/none/2/promote", {}, may_write=True)[0] == 409
    assert _asked(dashboard, f"models/{store['id']}/vector/-1/promote", {}, may_write=True)[0] == 404
    assert _asked(dashboard, path, {}, may_write=True) == (200, {"version": 2, "previous": 1})
    assert _asked(dashboard, f"models/{store['id']}/vector/rollback", {}, may_write=True)[1]["version"] == 1


@pytest.mark.parametrize("body", [b"{", b"[]", {"world": "pods", "policy": "kube", "path": "/etc"}, b"\xff"])
def test_a_run_is_asked_for_in_a_few_words(dashboard: Dashboard, body: Any) -> None:
    assert _asked(dashboard, "playground", body)[0] == 400


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"world": "no"}, "no world"),
        ({"world": ["pods"]}, "no world"),
        ({"scenario": "/etc/passwd"}, "no scenario"),
        ({"scenario": "x.py:Scenario"}, "no scenario"),
        ({"policy": "/tmp/evil.py:Evil"}, "no policy"),
        ({"policy": "../../x"}, "no policy"),
        ({"policy": {"a": 1}}, "no policy"),
        ({"scenario": ["small"]}, "no scenario"),
        ({"seed": -1}, "seed"),
        ({"seed": True}, "seed"),
        ({"seed": 1e9}, "seed"),
        ({"load": 5}, "load"),
        ({"load": "2"}, "load"),
        ({"without": ["nobody"]}, "there is no"),
        ({"without": ["node-0000"] * 65}, "without"),
        ({"without": "node-0000"}, "without"),
    ],
)
def test_only_what_the_catalogues_list_is_played(changes: dict[str, Any], says: str) -> None:
    question = {"world": "pods", "scenario": "small", "policy": "kube", "seed": 0}
    with pytest.raises(UsageError, match=says):
        worker.run({**question, **changes})


class _Slow:
    """A process that plays until it is let go."""

    let_go = threading.Event()
    fails = False

    def __init__(self, limits: PlaygroundLimits) -> None:
        """As the real one."""

    def ask(self, question: bytes) -> bytes:
        self.let_go.wait(20)
        if self.fails:
            raise ProreusError("it was ended")
        return json.dumps({"asked": json.loads(question), "long": "x" * 2_000}).encode()

    def end(self) -> None:
        """Nothing."""


def _until(reached: Callable[[], bool]) -> None:
    for _ in range(1_000):
        if reached():
            return
        threading.Event().wait(0.01)
    raise AssertionError("the time is up")


def test_a_playground_takes_so_many_runs_and_keeps_so_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playground, "PlaygroundProcess", _Slow)
    _Slow.let_go.clear()
    limits = PlaygroundLimits(processes=1, waiting=2, each=2, kept_bytes=5_000)
    made = Playground(limits)
    try:
        first = made.start({"seed": 0}, "me")
        _until(lambda: first.state == "running")
        made.start({"seed": 1}, "me")
        assert made.start({"seed": 0}, "you") is first, "the same is played once"
        with pytest.raises(playground.Crowded, match="2 runs of yours"):
            made.start({"seed": 2}, "me")
        made.start({"seed": 2}, "you")
        with pytest.raises(playground.Crowded, match="too many"):
            made.start({"seed": 3}, "somebody else")
        _Slow.let_go.set()
        _until(lambda: all(run is None or run.state == "done" for run in map(made.find, list(made._runs))))
        assert sum(len(run.answer) for run in made._runs.values()) <= limits.kept_bytes
        _Slow.fails = True
        failed = made.start({"seed": 9}, "me")
        _until(lambda: failed.state == "failed")
        assert failed.why == "it was ended"
        _Slow.fails = False
        again = made.start({"seed": 9}, "me")
        assert again is not failed, "what failed may be tried again"
    finally:
        _Slow.fails = False
        _Slow.let_go.set()
        made.close()


def test_a_run_that_takes_too_long_is_ended() -> None:
    made = Playground(PlaygroundLimits(processes=1, seconds=0.001))
    try:
        run = made.start({"do": "catalogue"}, "me")
        _until(lambda: run.state in ("done", "failed") or threading.Event().wait(0.1))
        for _ in range(1_200):
            if run.state in ("done", "failed"):
                break
            threading.Event().wait(0.1)
        assert run.state == "failed" and "took more than 0.001 s" in run.why
    finally:
        made.close()


def test_pages_of_others_and_other_names_are_refused(runs: Path) -> None:
    with shown(runs, TOKEN) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        token = {"authorization": f"Bearer {TOKEN}"}
        assert ask(port, "/").status == 200
        assert ask(port, "/dashboard/about").status == 401
        assert ask(port, "/dashboard/about", **token).status == 200
        own = f"http://127.0.0.1:{port}"
        assert ask(port, "/dashboard/playground", {"x": 1}, origin=own, **token).status == 400
        for origin in ("http://evil.example", "null", f"http://127.0.0.1:{port + 1}"):
            assert ask(port, "/dashboard/about", origin=origin, **token).status == 403
            assert ask(port, "/dashboard/playground", {}, origin=origin, **token).status == 403
        rebound = {"host": "evil.example", **token}
        assert ask(port, "/dashboard/about", **rebound).status == 403
        assert ask(port, "/", host="evil.example").status == 403
        plain = ask(port, "/dashboard/playground", b"{}", method="POST", content_type="text/plain", **token)
        assert plain.status == 415
        assert (
            ask(
                port,
                "/dashboard/playground",
                b"x" * 70_000,
                method="POST",
                content_type="application/json",
                **token,
            ).status
            == 413
        )


def test_a_service_answers_its_own_pages_and_these_change_nothing_without_a_token(tmp_path: Path) -> None:
    dashboard = Dashboard(DashboardOptions("service"))
    doors = open_doors(serving_options(tmp_path, pages=dashboard))
    try:
        own = f"http://127.0.0.1:{doors.rest}"
        assert ask(doors.rest, "/v1/models/rollback", {}, origin=own).status == 403
        assert ask(doors.rest, "/v1/models/1/promote", {}, origin="http://evil.example").status == 403
        assert ask(doors.rest, "/v1/models/1/promote", {}).status == 200, "a program on this machine may"
        assert ask(doors.rest, "/v1/models", origin=own).status == 200
        assert ask(doors.rest, "/v1/models", origin="http://evil.example").status == 403
        assert json.loads(ask(doors.rest, "/dashboard/about").body)["service"]
    finally:
        dashboard.close()
        doors.running.stop(2.0)
