"""`proreus records`: what services and clusters have recorded, whichever way it is kept."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from proreus.engine.store.factory import open_store
from proreus.engine.store.log.places import StorePlace
from proreus.engine.store.protocol import Put, Unchanged
from proreus.engine.trace.log import TraceLog
from proreus.engine.trace.reader import read_trace
from proreus.log.protocol import LogLimits
from proreus.serving.online.experience_log import ExperienceLog
from proreus.serving.online.progress import Position, Progress, write_progress
from tests.cli.runner import Proreus, assert_refused
from tests.engine.store.test_trace import segment
from tests.serving.serving_cases import an_experience, experience_log

SMALL = LogLimits(segment_bytes=1500)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """The --store of a service with two processes, of which the first has learned from 4 records of 10."""
    folder = tmp_path / "models"
    for log, records in (("", 10), ("2", 3)):
        written = experience_log(folder / "vector" / "experience" / log, SMALL)
        for k in range(records):
            written.append(an_experience(k, masked=k == 1))
        written.close()
    write_progress(folder / "vector" / "experience", Progress({"": Position(4, 4, 4)}))
    return folder


@pytest.fixture
def cluster(tmp_path: Path) -> str:
    """A store with the trace of a cluster and the experience of two models."""
    path = tmp_path / "cluster" / "cluster.db"

    async def record() -> None:
        store = await open_store(str(path))
        fence = Unchanged("fence", (await store.commit([], [Put("fence", b"")])).revision)
        log = TraceLog(store)
        for number in range(3):
            await log.append(segment(number), fence)
        await store.close()

    asyncio.run(record())
    for model in ("a", "vector"):
        log = ExperienceLog(StorePlace.of(str(path), model, "").open(LogLimits(), lambda _: 0))
        for k in range(6):
            log.append(an_experience(k), an_experience(k + 10))
        log.close()
    return str(path)


def answer(proreus: Proreus, tmp_path: Path, *words: str) -> Any:
    path = tmp_path / "out.json"
    ended = proreus("records", *words, "--json", str(path))
    assert (ended.code, ended.err) == (0, ""), ended
    return json.loads(path.read_bytes())


def test_list_finds_the_logs_of_a_service(proreus: Proreus, models: Path, tmp_path: Path) -> None:
    for place in (models, models / "vector" / "experience"):
        first, second = answer(proreus, tmp_path, "list", str(place))["logs"]
        assert (first["records"], first["first"], first["last"], first["damaged"]) == (10, 0, 9, 0)
        assert second["name"].endswith("experience/2") and second["records"] == 3
    assert "vector/experience/2" in proreus("records", "list", str(models)).out


def test_list_finds_all_logs_of_a_store(proreus: Proreus, cluster: str, tmp_path: Path) -> None:
    for place in (cluster, f"sqlite:{cluster}", str(Path(cluster).parent)):
        logs = answer(proreus, tmp_path, "list", place)["logs"]
        assert [(entry["name"], entry["records"], entry["parts"]) for entry in logs] == [
            ("trace", 3, 3),
            ("experience/a", 12, 6),
            ("experience/vector", 12, 6),
        ]
    assert [pod.uid for pod in read_trace(cluster).pods] == ["u0", "u1", "u2"]  # as `--from` does


def test_verify_reads_every_record_and_fails_where_one_is_damaged(
    proreus: Proreus, models: Path, cluster: str, tmp_path: Path
) -> None:
    for place in (str(models), cluster):
        assert all(not log["damaged"] for log in answer(proreus, tmp_path, "verify", place)["logs"])
    path = next((models / "vector" / "experience").glob("*.log"))
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    asyncio.run(_nonsense(cluster, "/trace/segments/000000000001"))
    asyncio.run(_nonsense(cluster, "/experience/a/segments/000000000003"))
    for place, lost in ((str(models), [1, 0]), (cluster, [1, 1, 0])):
        ended = proreus("records", "verify", place, "--json", str(tmp_path / "found.json"))
        assert ended.code == 1, ended
        logs = json.loads((tmp_path / "found.json").read_bytes())["logs"]
        assert [log["lost"] for log in logs] == lost


async def _nonsense(path: str, key: str) -> None:
    store = await open_store(path)
    assert await store.get(key) is not None
    await store.commit([], [Put(key, b"nonsense")])
    await store.close()


def test_export_writes_every_record_as_json(
    proreus: Proreus, models: Path, cluster: str, tmp_path: Path
) -> None:
    out = tmp_path / "records.jsonl"
    assert answer(proreus, tmp_path, "export", str(models), "--out", str(out)) == {"records": 13}
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["number"] for line in lines] == [*range(10), *range(3)]
    sent = an_experience(1, masked=True)
    assert lines[1]["states"] == sent.states.tolist() and lines[1]["masks"] is not None
    assert lines[1]["rewards"] == sent.rewards.tolist() and len(lines[1]["log_probs"]) == len(sent)
    ended = proreus("records", "export", cluster, "--log", "experience/a", "--since", "3")
    assert [json.loads(line)["number"] for line in ended.out.splitlines()] == list(range(3, 12))
    ended = proreus("records", "export", cluster, "--log", "trace")
    assert [json.loads(line)["pods"][0][0] for line in ended.out.splitlines()] == ["u0", "u1", "u2"]


def test_prune_drops_what_was_learned_from_or_what_is_said(
    proreus: Proreus, models: Path, cluster: str, tmp_path: Path
) -> None:
    first = "vector/experience"
    done = answer(proreus, tmp_path, "prune", str(models), "--log", first)
    assert 0 < done["dropped"] <= 4 and done["first"] == done["dropped"] and done["last"] == 9
    done = answer(proreus, tmp_path, "prune", str(models), "--log", first, "--before", "100")
    assert 1 <= done["records"] < 6 and done["last"] == 9  # never the file that may be written to
    done = answer(proreus, tmp_path, "prune", cluster, "--log", "experience/a", "--before", "5")
    assert (done["dropped"], done["first"], done["last"]) == (4, 4, 11)
    done = answer(proreus, tmp_path, "prune", cluster, "--log", "experience/a", "--before", "100")
    assert (done["records"], done["first"]) == (0, None)
    log = StorePlace.of(cluster, "a", "").open(LogLimits(), lambda _: 0)
    assert log.next_number == 12  # numbers do not come again although all are gone
    log.close()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "say what to do with the records"),
        (("list",), "say where"),
        (("forget", "x"), "unknown action 'forget'"),
        (("list", "{tmp}/none.db"), "there is no such store"),
        (("list", "{tmp}"), "no cluster.db here"),
        (("list", "memory:"), "cannot be read from outside"),
        (("list", "redis://x"), "unknown kind 'redis'"),
        (("prune", "{cluster}"), "which log? --log with one of trace, experience/a"),
        (("prune", "{cluster}", "--log", "b"), "there is no log 'b'"),
        (("prune", "{cluster}", "--log", "trace", "--before", "2"), "thins out its trace by itself"),
        (("prune", "{cluster}", "--log", "experience/a"), "say --before NUMBER"),
        (("prune", "{cluster}", "--log", "experience/a", "--before", "-1"), "--before -1 is negative"),
        (("export", "{cluster}", "--json", "-"), "stdout cannot have both"),
    ],
)
def test_what_cannot_be_meant_is_one_line(
    proreus: Proreus, cluster: str, tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    given = [word.format(tmp=tmp_path, cluster=cluster) for word in words]
    assert_refused(proreus("records", *given), 2, says)


def test_a_store_with_nothing_recorded_says_so(proreus: Proreus, tmp_path: Path) -> None:
    async def make() -> None:
        await (await open_store(str(tmp_path / "x.db"))).close()

    asyncio.run(make())
    assert_refused(proreus("records", "list", str(tmp_path / "x.db")), 2, "nothing is recorded here")


def test_models_whose_experience_is_kept_in_a_store_say_where(
    proreus: Proreus, cluster: str, tmp_path: Path
) -> None:
    model = tmp_path / "models" / "vector"
    (model / "experience").mkdir(parents=True)
    (model / "current").write_text("1")
    asked = ("records", "list", str(model.parent))
    assert_refused(proreus(*asked), 2, "nothing was reported yet, or `serve` was told a --log")
    (name,) = StorePlace.of(cluster, "vector", "").names()
    write_progress(model / "experience", Progress({name: Position(4, 4, 4)}))
    for place in (model.parent, model / "experience"):
        said = f"`serve` was told a --log, so name that: sqlite:{cluster}"
        assert_refused(proreus("records", "list", str(place)), 2, said)


def test_a_log_that_everybody_may_read_is_not_said_to_hold_secrets(
    cluster: str, caplog: pytest.LogCaptureFixture
) -> None:
    Path(cluster).chmod(0o644)
    StorePlace.of(cluster, "a", "").open(LogLimits(), lambda _: 0).close()
    (message,) = caplog.messages
    assert message.startswith(
        f"every user of this machine may read {cluster}, with the experience of a service"
    )
