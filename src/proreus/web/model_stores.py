"""Stores of models for the dashboard: versions, which one is live, and another one made live.

A service that serves from the same store follows it within a second. Where the dashboard stands inside a
service, the page asks that one itself, which also knows whether a version fits.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from proreus.model.errors import ProreusError
from proreus.web.run_folders import Found


def store_summary(found: Found) -> dict[str, Any]:
    """The models of a store with all their versions, oldest first."""
    from proreus.serving.models.version_store import ModelStore  # what reads weights comes with it

    try:
        store = ModelStore(found.path)
        models = [
            {
                "model": name,
                "live": store.current(name),
                "versions": [asdict(version) for version in store.versions(name)],
            }
            for name in store.names()
        ]
        return {"id": found.id, "name": found.name, "models": models, "trouble": ""}
    except ProreusError as error:
        return {"id": found.id, "name": found.name, "models": [], "trouble": str(error)}


def promote(found: Found, model: str, version: int) -> dict[str, Any]:
    """Make a version live; a ProreusError where there is none, or it is damaged."""
    store = _store_with(found, model)
    before = store.current(model)
    store.load(model, version)  # one that cannot be loaded never goes live
    store.promote(model, version)
    return {"version": store.current(model), "previous": before}


def roll_back(found: Found, model: str) -> dict[str, Any]:
    """Make the version live again that was live before."""
    store = _store_with(found, model)
    before = store.current(model)
    return {"version": store.rollback(model), "previous": before}


def _store_with(found: Found, model: str) -> Any:
    from proreus.serving.models.version_store import ModelStore

    store = ModelStore(found.path)
    if model not in store.names():
        raise ProreusError(f"{found.name}: there is no model {model[:80]!r}")
    return store
