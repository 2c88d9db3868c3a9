"""The two spread constraints that kube-scheduler gives pods which state none, by who selects them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from proreus.data.cursor import Entry
from proreus.kube.constraints import read_label_selector
from proreus.model.node import HOSTNAME, ZONE
from proreus.model.pod import PodSpec, SpreadConstraint
from proreus.model.selectors import Selector, match_labels

SPREADING = ("ReplicaSet", "StatefulSet", "ReplicationController")
"""Owners whose selectors the scheduler's own spread constraints count by; Services do so besides."""

OwnerKey = tuple[str, str, str]
"""Kind, namespace and name of an object."""


def controller_of(item: Entry) -> OwnerKey | None:
    """Who owns the object, where somebody does."""
    for owner in item.children("metadata.ownerReferences"):
        if owner.truth_at("controller"):
            namespace = item.text_at("metadata.namespace", "default")
            return owner.require("kind").text(), namespace, owner.require("name").text()
    return None


def selector_of(item: Entry, kind: str) -> Selector:
    """Which pods a controller of that kind counts as its own."""
    if kind != "ReplicationController":
        return read_label_selector(item.require("spec.selector"))
    return match_labels(dict(item.texts("spec.selector") or item.texts("spec.template.metadata.labels")))


def with_default_spread(
    spec: PodSpec, services: Iterable[tuple[str, Mapping[str, str]]], owner: Selector
) -> PodSpec:
    """The spec with the scheduler's own constraints, if it has none and something selects its pods.

    services: (namespace, selector) of each; owner: the selector of the pod's own controller.
    """
    if spec.spread:
        return spec
    labels = dict(spec.labels)
    of_services: dict[str, str] = {}
    for namespace, wanted in services:
        if namespace == spec.namespace and all(labels.get(key) == value for key, value in wanted.items()):
            of_services |= wanted
    known = match_labels(of_services).requirements
    both = (*known, *(r for r in owner.requirements if r not in known))
    return replace(spec, spread=_default_spread(Selector(both))) if both else spec


def _default_spread(selector: Selector) -> tuple[SpreadConstraint, ...]:
    return (
        SpreadConstraint(selector, HOSTNAME, max_skew=3, hard=False, system_default=True),
        SpreadConstraint(selector, ZONE, max_skew=5, hard=False, system_default=True),
    )
