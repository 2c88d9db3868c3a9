"""What is told of one version of a model: by the store, on the command line, and through the doors.

Plain data of the standard library: to look at a store nobody needs what the doors are made of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

CURRENT = "current"
"""The file of a store, below the name of each model, that says which version is live."""


@dataclass(frozen=True)
class VersionAnswer:
    """One version of the model."""

    version: int
    state: str
    """live, kept, rejected or damaged"""
    note: str
    """Where it came from; why it was rejected; what is wrong with it."""
    created: str
    scores: Mapping[str, float]
    parent: int | None
    """The version it was improved from."""
    sha256: str
    """Of the weights."""
    bytes: int
    kind: str
    """"vector-scorer" or "vector-mlp"."""
    steps: int
    """Decisions that it learned from."""
