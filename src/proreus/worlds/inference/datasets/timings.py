"""The timings of the kinds of a cluster: reckoned from data sheets, measured, or published."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from proreus.model.errors import UsageError, unknown_name
from proreus.worlds.inference.datasets.layer_profiles import Together, read_layer_profile
from proreus.worlds.inference.datasets.perf_table import read_perf_table
from proreus.worlds.inference.model.cluster import ClusterSpec, InstanceKind
from proreus.worlds.inference.model.llm import LanguageModel
from proreus.worlds.inference.model.roofline import roofline
from proreus.worlds.inference.model.timings import LayerProfile, Table

PUBLISHED = "llm/splitwise/perf_model.csv"
"""Where the table lies in a folder of datasets."""
PROFILES = "llm/llmservingsim/profiler/perf"
"""Where measured profiles of layers lie in it."""
_CARDS = {"rtx-pro-6000": "RTXPRO6000", "rtx-4090": "RTX4090"}
_MODELS = {
    "llama3-8b": "meta-llama/Llama-3.1-8B",
    "qwen3-32b": "Qwen/Qwen3-32B",
    "qwen3-30b-a3b": "Qwen/Qwen3-30B-A3B-Instruct-2507",
}
"""What whoever measured calls them; others are called as here."""


def timings_of(spec: ClusterSpec, table: Path | None) -> dict[str, Table | LayerProfile]:
    """By the names that kinds have for them; with a table, all that it has."""
    if table is not None and table.is_dir():
        return {kind.timing: _profile(table, kind) for kind in spec.kinds}
    if table is None:
        return {kind.timing: roofline(kind.model, kind.gpu, kind.gpus) for kind in spec.kinds}
    found = _read(table)
    for kind in spec.kinds:
        if kind.timing not in found:
            raise unknown_name("timing", kind.timing, found)
    return dict(found)


def profiles_in(folder: Path | None) -> Path:
    """The measured profiles of layers in a folder of datasets."""
    if folder is None:
        raise UsageError("--timing profile needs --data DIR or PROREUS_DATA, or --profiles DIR")
    return checked_profiles(folder / PROFILES)


def checked_profiles(folder: Path) -> Path:
    """A folder CARD/ORGANISATION/MODEL/bf16/tpN of them."""
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder} of measured profiles")
    return folder.resolve()  # scenarios travel by it


def _profile(folder: Path, kind: InstanceKind) -> LayerProfile:
    """As it was measured on that card, and what its GPUs tell each other on top."""
    card = _CARDS.get(kind.gpu.name, kind.gpu.name)
    name = _MODELS.get(kind.model.name, kind.model.name)
    place = folder / card / name / "bf16" / f"tp{kind.gpus}"
    if not place.is_dir():
        there = sorted(str(path.relative_to(folder)) for path in folder.glob("*/*/*/bf16/tp*"))
        says = f"nobody has measured {kind.model.name} on {kind.gpus} {kind.gpu.name}"
        raise UsageError(f"{says}; {folder} has {', '.join(there) or 'nothing'}")
    return _read_profile(place, kind.model, Together(kind.gpus, kind.gpu.link))


@lru_cache(maxsize=8)
def _read_profile(place: Path, model: LanguageModel, together: Together) -> LayerProfile:
    return read_layer_profile(place, model, together=together)


def table_in(folder: Path | None) -> Path:
    """The published table in a folder of datasets."""
    if folder is None:
        raise UsageError("--timing table needs --data DIR or PROREUS_DATA")
    return (folder / PUBLISHED).resolve()  # scenarios travel by it


@lru_cache(maxsize=2)
def _read(path: Path) -> dict[str, Table]:
    return read_perf_table(path)
