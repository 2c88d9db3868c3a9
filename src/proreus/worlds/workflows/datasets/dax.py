"""Pegasus' DAX: XML of one workflow, with the profiled runtime of every job.

Read with expat alone. A document type is refused before any entity of it could grow: files come from others.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from proreus.data.text_file import read_text
from proreus.model.errors import InputError
from proreus.worlds.workflows.model import Workflow, workflow_of

_MOST = 1e15


@dataclass
class _Job:
    key: str
    name: str
    runtime: float
    reads: dict[str, float] = field(default_factory=dict)
    writes: dict[str, float] = field(default_factory=dict)


class _Reading:
    """Hears the elements of a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.jobs: dict[str, _Job] = {}
        self.links: list[tuple[str, str, int]] = []
        self._job: _Job | None = None
        self._child = ""
        self._depth = 0
        # Without a name separator prefixes stay as they are written; DAX uses none for its own elements.
        self._parser = expat.ParserCreate()
        self._parser.StartElementHandler = self._begin
        self._parser.EndElementHandler = self._end
        self._parser.StartDoctypeDeclHandler = self._refuse
        self._parser.EntityDeclHandler = self._refuse

    def read(self, text: str) -> None:
        try:
            self._parser.Parse(text, True)
        except expat.ExpatError as error:
            message = f"not valid XML: {expat.errors.messages[error.code]}"
            raise InputError(message, file=self._path, line=error.lineno) from None

    def fail(self, field: str, message: str) -> InputError:
        return InputError(message, file=self._path, line=self._parser.CurrentLineNumber, field=field)

    def _refuse(self, *_: object) -> None:
        raise self.fail("DOCTYPE", "document types and entities are not read")

    def _begin(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1 and tag != "adag":
            raise self.fail(tag, "a DAX file begins with <adag>")
        match tag:
            case "job":
                self._job = self._new_job(attributes)
            case "uses" if self._job is not None:
                self._add_file(self._job, attributes)
            case "child":
                self._child = self._named(attributes, "child.ref")
            case "parent" if self._child:
                link = (self._named(attributes, "parent.ref"), self._child, self._parser.CurrentLineNumber)
                self.links.append(link)

    def _end(self, tag: str) -> None:
        self._depth -= 1
        match tag:
            case "job":
                self._job = None
            case "child":
                self._child = ""

    def _new_job(self, attributes: dict[str, str]) -> _Job:
        key = attributes.get("id", "")
        if not key or key in self.jobs:
            raise self.fail("job.id", f"{key!r} is there twice" if key else "the attribute is missing")
        runtime = self._number(attributes, "runtime", "job.runtime")
        self.jobs[key] = job = _Job(key, attributes.get("name", key), runtime)
        return job

    def _add_file(self, job: _Job, attributes: dict[str, str]) -> None:
        # Up to version 2.1 a file is `file`, from 3.0 on `name`.
        file = attributes.get("file", attributes.get("name", ""))
        if not file:
            raise self.fail("uses.file", "the attribute is missing")
        size = self._number(attributes, "size", "uses.size") if "size" in attributes else 0.0
        (job.writes if attributes.get("link") == "output" else job.reads)[file] = size

    def _named(self, attributes: dict[str, str], where: str) -> str:
        if not attributes.get("ref"):
            raise self.fail(where, "the attribute is missing")
        return attributes["ref"]

    def _number(self, attributes: dict[str, str], name: str, where: str) -> float:
        try:
            value = float(attributes[name])
        except KeyError:
            raise self.fail(where, "the attribute is missing") from None
        except ValueError:
            raise self.fail(where, f"{attributes[name][:40]!r} is not a number") from None
        if not (math.isfinite(value) and 0 <= value <= _MOST):
            raise self.fail(where, f"{value} is not between 0 and {_MOST:g}")
        return value


def read_dax(path: Path) -> Workflow:
    """The workflow of a file; an InputError names line and attribute."""
    reading = _Reading(path)
    reading.read(read_text(path))
    jobs = list(reading.jobs.values())
    if not jobs:
        raise InputError("there is no job with a runtime", file=path, field="job")
    place = {job.key: at for at, job in enumerate(jobs)}
    edges: dict[tuple[int, int], float] = {}
    for parent, child, line in reading.links:
        for key in (parent, child):
            if key not in place:
                raise InputError(f"{key!r} is no job", file=path, line=line, field="child")
        written, read = jobs[place[parent]].writes, jobs[place[child]].reads
        edges[place[parent], place[child]] = sum(size for file, size in written.items() if file in read)
    family = path.stem.split("_")[0].lower()
    try:
        return workflow_of(
            (path.stem, family), [job.key for job in jobs], [job.runtime for job in jobs], edges
        )
    except ValueError as error:
        raise InputError(str(error), file=path, field="child") from None
