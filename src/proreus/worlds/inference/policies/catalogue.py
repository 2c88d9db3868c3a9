"""The controllers of the world `inference` by name."""

from __future__ import annotations

from proreus.policies.catalogue import Catalogue, Rule
from proreus.worlds.inference.policies.rules import Apa, Controller, Kpa, Oracle, Static, Threshold


def _rule(kind: type[Controller], what: str) -> Rule:
    return Rule(what, lambda name, options, seed: kind(name))


POLICIES = Catalogue(
    world="inference",
    rules={
        "threshold": _rule(Threshold, "more instances above a use of 0.8, fewer below 0.3"),
        "kpa": _rule(Kpa, "Knative: concurrency over a minute, over seconds in panic"),
        "apa": _rule(Apa, "AIBrix: in proportion to use, slow to shrink"),
        "static": _rule(Static, "the cluster as it begins"),
        "oracle": _rule(Oracle, "sees what will come: a bound, not a controller"),
    },
    main=("threshold", "kpa", "apa", "static", "oracle"),
)
