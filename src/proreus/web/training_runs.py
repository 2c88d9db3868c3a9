"""Training runs for the dashboard: what a run is, how far it has come, its curves, what it said at last."""

from __future__ import annotations

import time
from typing import Any

from proreus.learning.improvement import Improvement
from proreus.learning.run_folder import (
    JOURNAL,
    done_of,
    mean_gain,
    read_improvement,
    read_journal,
    read_settings,
)
from proreus.model.errors import InputError, ProreusError
from proreus.web.run_folders import Found

_LIVE_SECONDS = 120.0
"""A run whose journal was written to within so long goes on."""
_MOST_POINTS = 2_000


def training_summary(found: Found) -> dict[str, Any]:
    """A run in a list; one that cannot be read says why."""
    try:
        settings, journal = read_settings(found.path), read_journal(found.path)
        improvement = read_improvement(found.path)
        return {
            "id": found.id,
            "name": found.name,
            "world": str(settings.get("world", "pods")),
            "algorithm": str(settings["algorithm"]),
            "kind": str(settings.get("kind", "")),
            "seed": settings.get("seed"),
            "scenarios": [
                str(entry.get("name", "")) for entry in settings["scenarios"] if isinstance(entry, dict)
            ],
            "done": done_of(journal),
            "state": _state(found, ended=improvement is not None),
            "best": _chosen_on(journal) if improvement is None else _confirmed(improvement),
            "said": "" if improvement is None else Improvement.from_json(improvement).words,
            "trouble": "",
        }
    except (ProreusError, KeyError, TypeError, ValueError, AttributeError) as error:
        return {"id": found.id, "name": found.name, "trouble": f"{type(error).__name__}: {error}"}


def training_detail(found: Found) -> dict[str, Any]:
    """Its curves: gains on held-out seeds over the strongest rule, by scenario, and what it trained on."""
    from proreus.compare.learning_curves import trained  # Matplotlib comes with it, which takes a moment

    summary = training_summary(found)
    if summary.get("trouble"):
        raise InputError(str(summary["trouble"]), file=found.path)
    journal = read_journal(found.path)
    judged = [entry for entry in journal if entry.get("validation")]
    names = list(dict.fromkeys(name for entry in judged for name in entry["validation"]))
    improvement = read_improvement(found.path)
    step = "generation" if any("generation" in entry for entry in journal) else "update"
    return {
        **summary,
        "step": step,
        "config": {str(name): value for name, value in read_settings(found.path)["config"].items()},
        "judged": {
            "x": [_place(entry) for entry in judged],
            "series": [
                {"name": name, "values": [entry["validation"].get(name) for entry in judged]}
                for name in names
            ],
        },
        "trained": [list(point) for point in trained(journal)[-_MOST_POINTS:]],
        "improvement": improvement,
    }


def _chosen_on(journal: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The best mean gain so far, on the episodes that checkpoints are chosen on: it flatters."""
    judged = [mean_gain(entry["validation"]) for entry in journal if entry.get("validation")]
    return {"mean": max(judged), "low": None, "high": None, "confirmed": False} if judged else None


def _confirmed(kept: dict[str, Any]) -> dict[str, Any] | None:
    """The gain on episodes that the checkpoint was not chosen on; None where the start is handed out."""
    gains = Improvement.from_json(kept).gains
    if not gains:
        return None
    mean = mean_gain({name: gain.mean for name, gain in gains.items()})
    # Episodes of several scenarios are not kept one by one: their mean has no interval here.
    low, high = next(((gain.low, gain.high) for gain in gains.values() if len(gains) == 1), (None, None))
    return {"mean": mean, "low": low, "high": high, "confirmed": True}


def _place(entry: dict[str, Any]) -> float:
    return float(entry["update"] if "update" in entry else entry["generation"] + 1)


def _state(found: Found, *, ended: bool) -> str:
    if ended:
        return "finished"
    try:
        age = time.time() - (found.path / JOURNAL).stat().st_mtime
    except OSError:
        return "stopped"
    return "live" if age < _LIVE_SECONDS else "stopped"
