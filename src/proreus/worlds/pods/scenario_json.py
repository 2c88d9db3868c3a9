"""Scenarios as JSON: what a training run was trained on, so that it can go on without being told again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from proreus.model.errors import UsageError
from proreus.worlds.pods.scenarios import FromCatalogue, FromFiles, Generated, Scenario
from proreus.worlds.pods.simulation.world import PodsOptions

_KINDS = {"generated": Generated, "catalogue": FromCatalogue, "files": FromFiles}
_PATHS: Mapping[str, frozenset[str]] = {
    "generated": frozenset(),
    "catalogue": frozenset({"data"}),
    "files": frozenset({"pods", "nodes", "throughputs"}),
}


def scenario_to_json(scenario: Scenario) -> dict[str, Any]:
    """The scenario with its options; paths are absolute, for a run may go on in another folder."""
    source = scenario.source
    if not isinstance(source, Generated | FromCatalogue | FromFiles):
        raise UsageError(f"the scenario {scenario.name} cannot be written down: {type(source).__name__}")
    kind = next(name for name, known in _KINDS.items() if isinstance(source, known))
    values = {
        name: str(value.resolve()) if isinstance(value, Path) else value
        for name, value in asdict(source).items()
    }
    return {"name": scenario.name, "kind": kind, "source": values, "options": asdict(scenario.options)}


def scenario_from_json(entry: Any, data: Path | None = None) -> Scenario:
    """The scenario that `scenario_to_json` described; `data` says that the datasets lie elsewhere now.

    Raises ValueError where the entry describes none.
    """
    try:
        kind = entry["kind"]
        values = {
            name: Path(value) if name in _PATHS[kind] and value is not None else value
            for name, value in entry["source"].items()
        }
        source = _KINDS[kind](**values)
        options = PodsOptions(**entry["options"])
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"not a scenario: {error}") from error
    if isinstance(source, FromCatalogue) and data is not None:
        source = replace(source, data=data)
    return Scenario(source, options)
