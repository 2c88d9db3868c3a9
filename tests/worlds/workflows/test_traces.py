"""Readers of recorded workflows, the generator, and the parts that data is split into."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from proreus.api import make_scenario
from proreus.model.errors import InputError, UsageError
from proreus.worlds.workflows.datasets.files import files_in, of_part, read_workflow
from proreus.worlds.workflows.datasets.generator import FAMILIES, generate_workflow
from proreus.worlds.workflows.scenarios import WorkflowsScenario
from tests.real_data import real_data

DAX = """<?xml version="1.0"?>
<adag xmlns="http://pegasus.isi.edu/schema/DAX" version="2.1" name="x">
  <job id="A" name="first" runtime="3.5"><uses file="f" link="output" size="100"/></job>
  <job id="B" name="second" runtime="2"><uses file="f" link="input" size="100"/>
    <uses name="g" link="input"/></job>
  <child ref="B"><parent ref="A"/></child>
</adag>
"""


def two_halves(**changed: Any) -> dict[str, Any]:
    """Version 1.5."""
    plan = {
        "tasks": [
            {"id": "b", "name": "b", "parents": ["a"], "children": [], "inputFiles": ["f", "in"]},
            {"id": "a", "name": "a", "parents": [], "children": ["b"], "outputFiles": ["f", "g"]},
        ],
        "files": [
            {"id": "f", "sizeInBytes": 70},
            {"id": "g", "sizeInBytes": 9},
            {"id": "in", "sizeInBytes": 5},
        ],
    }
    went = {"tasks": [{"id": "a", "runtimeInSeconds": 4}, {"id": "b", "runtimeInSeconds": 1.5}]}
    return {"schemaVersion": "1.5", "workflow": {"specification": plan, "execution": went, **changed}}


def one_piece(field: str = "tasks") -> dict[str, Any]:
    """Up to version 1.4."""
    files = {"b": [("input", "f", 70)], "a": [("output", "f", 70), ("output", "g", 9)]}
    tasks = [
        {
            "name": name,
            "id": f"ID{name}",
            "runtime" if field == "jobs" else "runtimeInSeconds": seconds,
            "parents": parents,
            "files": [{"link": link, "name": file, "size": size} for link, file, size in files[name]],
        }
        for name, seconds, parents in (("b", 1.5, ["a"]), ("a", 4, []))
    ]
    return {"schemaVersion": "1.3", "workflow": {field: tasks}}


@pytest.mark.parametrize("content", [two_halves(), one_piece(), one_piece("jobs")])
def test_every_version_says_the_same(content: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "small-x-001.json").write_text(json.dumps(content))
    workflow = read_workflow(tmp_path / "small-x-001.json")
    assert (workflow.name, workflow.family, workflow.tasks) == ("small-x-001", "small", ("a", "b"))
    assert workflow.runtime.tolist() == [4.0, 1.5]
    assert (workflow.parent.tolist(), workflow.child.tolist(), workflow.size.tolist()) == ([0], [1], [70.0])


def _without(path: str) -> dict[str, Any]:
    content = two_halves()
    *keys, last = path.split(".")
    place: Any = content
    for key in keys:
        place = place[int(key)] if key.isdigit() else place[key]
    del place[last]
    return content


CIRCLE = two_halves(
    specification={"tasks": [{"id": "a", "parents": ["b"]}, {"id": "b", "parents": ["a"]}], "files": []}
)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ([], "the file: a mapping"),
        ({}, "workflow: a mapping"),
        (_without("workflow.execution"), "workflow.execution"),
        (_without("workflow.execution.tasks.0.runtimeInSeconds"), "tasks[0].runtimeInSeconds: a number"),
        (two_halves(execution={"tasks": []}), "was never run"),
        ({"workflow": {"tasks": []}}, "no task"),
        ({"workflow": {"tasks": [{"name": "a", "runtime": -1}]}}, "runtimeInSeconds: -1 is not between"),
        ({"workflow": {"tasks": [{"name": "a", "runtime": 1, "parents": ["z"]}]}}, "'z', which is no task"),
        (CIRCLE, "circle"),
    ],
)
def test_what_is_no_workflow_is_told_in_one_line(content: Any, says: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(InputError) as error:
        read_workflow(tmp_path / "bad.json")
    assert says in str(error.value) and "bad.json" in str(error.value) and "\n" not in str(error.value)


def test_dax_is_read(tmp_path: Path) -> None:
    (tmp_path / "Small_2.xml").write_text(DAX)
    workflow = read_workflow(tmp_path / "Small_2.xml")
    assert (workflow.family, workflow.tasks, workflow.runtime.tolist()) == ("small", ("A", "B"), [3.5, 2.0])
    assert (workflow.parent.tolist(), workflow.child.tolist(), workflow.size.tolist()) == ([0], [1], [100.0])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("</adag>", "", "no element found"),
        ("<adag", "< adag", "not valid XML"),
        ('<?xml version="1.0"?>', "<!DOCTYPE a [<!ENTITY b 'bbb'>]>", "DOCTYPE: document types"),
        ("adag", "dag", "begins with <adag>"),
        ('runtime="2"', "", ":4: job.runtime: the attribute is missing"),
        ('runtime="2"', 'runtime="soon"', "'soon' is not a number"),
        ('runtime="2"', 'runtime="-2"', "is not between"),
        ('id="B"', 'id="A"', "there twice"),
        ('parent ref="A"', 'parent ref="Z"', "'Z' is no job"),
        ('parent ref="A"', 'parent ref="B"', "circle"),
    ],
)
def test_a_broken_dax_is_told_in_one_line(old: str, new: str, says: str, tmp_path: Path) -> None:
    assert old in DAX
    (tmp_path / "bad.xml").write_text(DAX.replace(old, new))
    with pytest.raises(InputError) as error:
        read_workflow(tmp_path / "bad.xml")
    assert says in str(error.value) and "bad.xml" in str(error.value) and "\n" not in str(error.value)


def test_entities_never_grow(tmp_path: Path) -> None:
    grown = "".join(f'<!ENTITY e{at} "{f"&e{at - 1};" * 10}">' for at in range(1, 9))
    text = f'<!DOCTYPE adag [<!ENTITY e0 "ha">{grown}]><adag><job id="&e8;" runtime="1"/></adag>'
    (tmp_path / "bomb.xml").write_text(text)
    with pytest.raises(InputError, match="document types"):
        read_workflow(tmp_path / "bomb.xml")


def test_other_files_and_empty_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no workflow"):
        files_in(tmp_path)
    with pytest.raises(InputError, match="no such file"):
        files_in(tmp_path / "absent")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(InputError, match=r"is a file \.json"):
        read_workflow(tmp_path / "a.txt")


def test_parts_share_no_file() -> None:
    files = tuple(Path(f"{at:03d}.json") for at in range(69))
    parts = [set(of_part(files, part)) for part in ("train", "valid", "test")]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 69 and min(map(len, parts)) >= 13


@pytest.mark.parametrize("family", FAMILIES)
def test_generated_workflows_are_determined_by_their_seed_and_grow_with_their_width(family: str) -> None:
    workflow, same, other = (generate_workflow(family, 24, seed) for seed in (1, 1, 2))
    assert workflow.tasks == same.tasks and np.array_equal(workflow.runtime, same.runtime)
    assert not np.array_equal(workflow.runtime, other.runtime)
    assert len(generate_workflow(family, 96, 1)) > len(workflow)
    children = np.bincount(workflow.child, minlength=len(workflow))
    assert children.max() > 1, "somewhere results are joined"


def test_unknown_families_are_refused() -> None:
    with pytest.raises(UsageError, match="montage"):
        generate_workflow("montag", 4, 0)


def test_recorded_workflows_are_those_of_their_index() -> None:
    folder = real_data("workflows") / "workflows"
    with (folder / "INDEX.csv").open() as file:
        index = {row["file"]: row for row in csv.DictReader(file)}
    files = files_in(folder)
    assert len(files) > 50
    for path in files:
        workflow, row = read_workflow(path), index[str(path.relative_to(folder))]
        assert (len(workflow), workflow.parent.size) == (int(row["tasks"]), int(row["edges"]))
        assert workflow.runtime.sum() == pytest.approx(float(row["total_work_s"]), abs=0.1)
        assert workflow.size.sum() / 1e6 == pytest.approx(float(row["edge_data_MB"]), abs=0.1)


@pytest.mark.parametrize("given", [str, Path])
def test_one_file_may_be_named_by_a_text_or_by_a_path(tmp_path: Path, given: type[str] | type[Path]) -> None:
    file = tmp_path / "x.json"
    file.write_text(json.dumps(two_halves()))
    named = make_scenario("workflows", "static", files=given(file))
    made = WorkflowsScenario("static", files=given(file))  # type: ignore[arg-type]
    for scenario in (named, made):
        assert [workflow.tasks for workflow in scenario.load(0).arrivals.workflows] == [("a", "b")]
