"""The timings of the kinds of a cluster: reckoned from data sheets, or out of the published table."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.inference.model.cluster import ClusterSpec
from proreus.worlds.inference.model.roofline import roofline
from proreus.worlds.inference.model.timings import LayerProfile, Table
from proreus.worlds.inference.traces.perf_table import read_perf_table

PUBLISHED = "llm/splitwise/perf_model.csv"
"""Where the table lies in a folder of datasets."""


def timings_of(spec: ClusterSpec, table: Path | None) -> dict[str, Table | LayerProfile]:
    """By the names that kinds have for them; with a table, all that it has."""
    if table is None:
        return {kind.timing: roofline(kind.model, kind.gpu, kind.gpus) for kind in spec.kinds}
    found = _read(table)
    for kind in spec.kinds:
        if kind.timing not in found:
            raise unknown_name("timing", kind.timing, found)
    return dict(found)


def table_in(folder: Path | None) -> Path:
    """The published table in a folder of datasets."""
    if folder is None:
        raise UsageError("--timing table needs --data DIR or PROREUS_DATA")
    return (folder / PUBLISHED).resolve()  # scenarios travel by it


@lru_cache(maxsize=2)
def _read(path: Path) -> dict[str, Table]:
    return read_perf_table(path)
