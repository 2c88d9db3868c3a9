"""Where a pod may go, read from Kubernetes YAML: selectors, tolerations, affinities, spread constraints.

Called by `podspec`; `manifests` reads the selectors of controllers and disruption budgets with it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proreus.data.cursor import Entry
from proreus.data.table import shown
from proreus.model.errors import InputError
from proreus.model.node import Effect, Taint, Toleration
from proreus.model.pod import (
    NODE_NAME_FIELD,
    NodeAffinity,
    NodeTerm,
    PodAffinity,
    PodTerm,
    SpreadConstraint,
)
from proreus.model.selectors import Operator, Requirement, Selector

NOTHING = Selector((Requirement("", Operator.IN, ()),))
"""Selects no pod: what an absent label selector means in affinity terms and constraints."""

_LABEL_OPERATORS = (Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST)
_FIELD_OPERATORS = (Operator.IN, Operator.NOT_IN)


@dataclass(frozen=True)
class Carrier:
    """What the terms of a pod refer to: the pod's own labels, and the namespaces with theirs."""

    labels: Mapping[str, str]
    namespaces: Mapping[str, Mapping[str, str]]


def read_taint(entry: Entry) -> Taint:
    """One element of a node's spec.taints."""
    return Taint(entry.require("key").text(), entry.text_at("value"), _effect(entry.require("effect")))


def read_toleration(entry: Entry) -> Toleration:
    """One element of a pod's spec.tolerations."""
    key, operator = entry.text_at("key"), entry.text_at("operator", "Equal")
    if operator not in ("Equal", "Exists"):
        raise entry.require("operator").fail(f"{shown(operator)} is neither Equal nor Exists")
    if not key and operator != "Exists":
        raise entry.fail("a toleration without a key needs the operator Exists")
    effect = entry.find("effect")
    return Toleration(
        key=key,
        value=entry.text_at("value"),
        exists=operator == "Exists",
        effect=None if effect is None or not effect.text() else _effect(effect),
    )


def read_label_selector(entry: Entry | None) -> Selector:
    """matchLabels and matchExpressions; an absent selector selects nothing, an empty one everything."""
    if entry is None:
        return NOTHING
    equal = (Requirement(key, Operator.IN, (value,)) for key, value in entry.texts("matchLabels"))
    return Selector((*equal, *_requirements(entry, "matchExpressions", _LABEL_OPERATORS)))


def read_node_affinity(entry: Entry | None) -> NodeAffinity:
    """spec.affinity.nodeAffinity."""
    if entry is None:
        return NodeAffinity()
    required = entry.find("requiredDuringSchedulingIgnoredDuringExecution")
    terms: tuple[NodeTerm, ...] = ()
    if required is not None:
        terms = tuple(map(_node_term, required.children("nodeSelectorTerms")))
        if not terms:
            raise required.fail("there is no nodeSelectorTerm: no node can match")
    preferred = (
        (_weight(item), _node_term(item.require("preference")))
        for item in entry.children("preferredDuringSchedulingIgnoredDuringExecution")
    )
    return NodeAffinity(terms, tuple(preferred))


def read_pod_affinity(entry: Entry | None, carrier: Carrier) -> PodAffinity:
    """spec.affinity.podAffinity or podAntiAffinity."""
    if entry is None:
        return PodAffinity()
    required = entry.children("requiredDuringSchedulingIgnoredDuringExecution")
    preferred = entry.children("preferredDuringSchedulingIgnoredDuringExecution")
    return PodAffinity(
        tuple(_pod_term(term, carrier) for term in required),
        tuple((_weight(item), _pod_term(item.require("podAffinityTerm"), carrier)) for item in preferred),
    )


def read_spread(entry: Entry, carrier: Carrier) -> SpreadConstraint:
    """One element of spec.topologySpreadConstraints."""
    unsatisfiable = entry.require("whenUnsatisfiable")
    if unsatisfiable.text() not in ("DoNotSchedule", "ScheduleAnyway"):
        raise unsatisfiable.fail(f"{shown(unsatisfiable.text())} is neither DoNotSchedule nor ScheduleAnyway")
    selector = read_label_selector(entry.find("labelSelector"))
    return SpreadConstraint(
        selector=_with_label_keys(selector, entry, carrier),
        topology_key=entry.require("topologyKey").text(),
        max_skew=entry.require("maxSkew").integer(minimum=1),
        min_domains=entry.integer_at("minDomains", 1, minimum=1),
        hard=unsatisfiable.text() == "DoNotSchedule",
        honors_affinity=_honors(entry, "nodeAffinityPolicy", default=True),
        honors_taints=_honors(entry, "nodeTaintsPolicy", default=False),
    )


def _honors(entry: Entry, key: str, *, default: bool) -> bool:
    policy = entry.find(key)
    if policy is None:
        return default
    if policy.text() not in ("Honor", "Ignore"):
        raise policy.fail(f"{shown(policy.text())} is neither Honor nor Ignore")
    return policy.text() == "Honor"


def _effect(entry: Entry) -> Effect:
    try:
        return Effect(entry.text())
    except ValueError:
        known = ", ".join(effect.value for effect in Effect)
        raise entry.fail(f"{shown(entry.text())} is not one of {known}") from None


def _weight(entry: Entry) -> int:
    return entry.require("weight").integer(minimum=1, maximum=100)


def _node_term(entry: Entry) -> NodeTerm:
    fields = _requirements(entry, "matchFields", _FIELD_OPERATORS)
    for requirement in fields:
        if requirement.key != NODE_NAME_FIELD:
            raise entry.require("matchFields").fail(f"{NODE_NAME_FIELD} is the only field a node is known by")
    return NodeTerm(Selector(_requirements(entry, "matchExpressions", tuple(Operator))), Selector(fields))


def _pod_term(entry: Entry, carrier: Carrier) -> PodTerm:
    namespaces = {item.text() for item in entry.children("namespaces")}
    namespace_selector = entry.find("namespaceSelector")
    if namespace_selector is not None:
        chosen = read_label_selector(namespace_selector)
        namespaces |= {name for name, labels in carrier.namespaces.items() if chosen.matches(labels)}
    selector = read_label_selector(entry.find("labelSelector"))
    if namespace_selector is not None and not namespaces:
        selector = NOTHING  # it chose no namespace, so there is no pod to select; not even in its own
    return PodTerm(
        selector=_with_label_keys(selector, entry, carrier),
        topology_key=entry.require("topologyKey").text(),
        namespaces=tuple(sorted(namespaces)),
    )


def _with_label_keys(selector: Selector, entry: Entry, carrier: Carrier) -> Selector:
    """The selector narrowed to the pod's own values of matchLabelKeys (and away from mismatchLabelKeys)."""
    added = [
        Requirement(item.text(), operator, (carrier.labels[item.text()],))
        for key, operator in (("matchLabelKeys", Operator.IN), ("mismatchLabelKeys", Operator.NOT_IN))
        for item in entry.children(key)
        if item.text() in carrier.labels
    ]
    return Selector((*selector.requirements, *added))


def _requirements(entry: Entry, key: str, allowed: Sequence[Operator]) -> tuple[Requirement, ...]:
    return tuple(_requirement(item, allowed) for item in entry.children(key))


def _requirement(entry: Entry, allowed: Sequence[Operator]) -> Requirement:
    named = entry.require("operator")
    operator = next((operator for operator in allowed if operator.value == named.text()), None)
    if operator is None:
        known = ", ".join(operator.value for operator in allowed)
        raise named.fail(f"{shown(named.text())} is not one of {known}")
    requirement = Requirement(
        entry.require("key").text(), operator, tuple(item.text() for item in entry.children("values"))
    )
    problem = _values_problem(requirement, entry)
    if problem is not None:
        raise problem
    return requirement


def _values_problem(requirement: Requirement, entry: Entry) -> InputError | None:
    match requirement.operator:
        case Operator.IN | Operator.NOT_IN:
            return None if requirement.values else entry.fail("In and NotIn need at least one value")
        case Operator.EXISTS | Operator.DOES_NOT_EXIST:
            return entry.fail("Exists and DoesNotExist take no values") if requirement.values else None
        case Operator.GT | Operator.LT:
            return None if len(requirement.values) == 1 else entry.fail("Gt and Lt need exactly one value")
