"""WfCommons' WfFormat: JSON of one recorded workflow.

Versions from 1.5 on keep what was to be run (`workflow.specification`) apart from how it went
(`workflow.execution`); up to 1.4 each task has both in one place (`workflow.tasks`, before that
`workflow.jobs`), with its files in a list. An edge carries the files that its parent writes and its child
reads.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from proreus.data.json_tree import load_json
from proreus.model.errors import InputError
from proreus.worlds.workflows.model import Workflow, workflow_of

_LONGEST = 1e9
"""Seconds and, times a million, bytes: more is a mistake."""


def read_wfformat(path: Path) -> Workflow:
    """The workflow of a file; an InputError names the field that is wrong."""
    content = load_json(path)
    reading = _Reading(path)
    workflow = reading.mapping(reading.mapping(content, "the file").get("workflow"), "workflow")
    if "specification" in workflow:
        tasks = reading.of_two_halves(workflow)
    else:
        field = "tasks" if "tasks" in workflow else "jobs"
        tasks = [
            reading.of_one_piece(entry, f"workflow.{field}[{at}]")
            for at, entry in enumerate(reading.sequence(workflow.get(field), f"workflow.{field}"))
        ]
    if not tasks:
        raise InputError("there is no task", file=path, field="workflow")
    return _linked(tasks, path)


class _Task:
    """As a file has it."""

    def __init__(self, keys: tuple[str, ...], runtime: float, links: tuple[list[str], list[str]]) -> None:
        self.keys, self.runtime = keys, runtime
        self.parents, self.children = links
        self.reads: dict[str, float] = {}
        self.writes: dict[str, float] = {}


class _Reading:
    """One file, and what is wrong with it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def fail(self, field: str, message: str) -> InputError:
        return InputError(message, file=self._path, field=field)

    def mapping(self, value: Any, field: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise self.fail(field, "a mapping is needed here")
        return value

    def sequence(self, value: Any, field: str) -> list[Any]:
        if not isinstance(value, list):
            raise self.fail(field, "a list is needed here")
        return value

    def texts(self, value: Any, field: str) -> list[str]:
        return [str(item) for item in self.sequence([] if value is None else value, field)]

    def number(self, value: Any, field: str, most: float) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fail(field, "a number is needed here")
        if not (math.isfinite(value) and 0 <= value <= most):
            raise self.fail(field, f"{value} is not between 0 and {most:g}")
        return float(value)

    def of_two_halves(self, workflow: dict[str, Any]) -> list[_Task]:
        """Version 1.5 on."""
        plan = self.mapping(workflow["specification"], "workflow.specification")
        went = self.mapping(workflow.get("execution"), "workflow.execution")
        runtimes: dict[str, float] = {}
        for at, entry in enumerate(self.sequence(went.get("tasks"), "workflow.execution.tasks")):
            field = f"workflow.execution.tasks[{at}]"
            record = self.mapping(entry, field)
            seconds = self.number(record.get("runtimeInSeconds"), f"{field}.runtimeInSeconds", _LONGEST)
            runtimes[str(record.get("id"))] = seconds
        sizes: dict[str, float] = {}
        for at, entry in enumerate(self.sequence(plan.get("files", []), "workflow.specification.files")):
            field = f"workflow.specification.files[{at}]"
            record = self.mapping(entry, field)
            size = self.number(record.get("sizeInBytes", 0), f"{field}.sizeInBytes", 1e6 * _LONGEST)
            sizes[str(record.get("id"))] = size
        tasks = []
        for at, entry in enumerate(self.sequence(plan.get("tasks"), "workflow.specification.tasks")):
            field = f"workflow.specification.tasks[{at}]"
            record = self.mapping(entry, field)
            key = str(record.get("id", record.get("name")))
            if key not in runtimes:
                raise self.fail(f"{field}.id", f"the task {key!r} was never run: workflow.execution lacks it")
            links = (
                self.texts(record.get("parents"), f"{field}.parents"),
                self.texts(record.get("children"), f"{field}.children"),
            )
            task = _Task((key,), runtimes[key], links)
            reads = self.texts(record.get("inputFiles"), f"{field}.inputFiles")
            writes = self.texts(record.get("outputFiles"), f"{field}.outputFiles")
            task.reads = {name: sizes.get(name, 0.0) for name in reads}
            task.writes = {name: sizes.get(name, 0.0) for name in writes}
            tasks.append(task)
        return tasks

    def of_one_piece(self, entry: Any, field: str) -> _Task:
        """Versions up to 1.4; they name a task by its name or by its id."""
        record = self.mapping(entry, field)
        keys = tuple(str(record[name]) for name in ("id", "name") if name in record)
        if not keys:
            raise self.fail(f"{field}.name", "the field is missing")
        seconds = record.get("runtimeInSeconds", record.get("runtime"))
        links = (
            self.texts(record.get("parents"), f"{field}.parents"),
            self.texts(record.get("children"), f"{field}.children"),
        )
        task = _Task(keys, self.number(seconds, f"{field}.runtimeInSeconds", _LONGEST), links)
        for at, value in enumerate(self.sequence(record.get("files", []), f"{field}.files")):
            place = f"{field}.files[{at}]"
            file = self.mapping(value, place)
            size = file.get("sizeInBytes", file.get("size", 0))
            side = task.writes if file.get("link") == "output" else task.reads
            side[str(file.get("name", file.get("id")))] = self.number(size, f"{place}.size", 1e6 * _LONGEST)
        return task


def _linked(tasks: list[_Task], path: Path) -> Workflow:
    known = {key: at for at, task in enumerate(tasks) for key in reversed(task.keys)}
    edges: dict[tuple[int, int], float] = {}
    for at, task in enumerate(tasks):
        pairs = [(name, at, True) for name in task.parents] + [(name, at, False) for name in task.children]
        for name, here, is_parent in pairs:
            if name not in known:
                raise InputError(
                    f"the task {task.keys[0]!r} names {name!r}, which is no task", file=path, field="workflow"
                )
            parent, child = (known[name], here) if is_parent else (here, known[name])
            written, read = tasks[parent].writes, tasks[child].reads
            edges[parent, child] = sum(size for file, size in written.items() if file in read)
    family = path.stem.split("-")[0].lower()
    try:
        return workflow_of(
            (path.stem, family), [task.keys[-1] for task in tasks], [task.runtime for task in tasks], edges
        )
    except ValueError as error:
        raise InputError(str(error), file=path, field="workflow") from None
