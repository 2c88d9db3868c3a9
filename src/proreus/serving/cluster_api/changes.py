"""What happens to a cluster that a service keeps, in named fields."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from proreus.model.selectors import Selector
from proreus.model.workload import DisruptionBudget
from proreus.serving.cluster_api.schema import (
    Devices,
    NodeWire,
    PodWire,
    SelectorWire,
    Since,
    Strict,
    to_model,
)
from proreus.serving.messages import invalid


class BudgetWire(Strict, frozen=True):
    """A disruption budget; exactly one of the bounds is given."""

    name: str
    selector: SelectorWire
    namespace: str = "default"
    min_available: Annotated[int, Meta(ge=0, le=2**31)] | None = None
    max_unavailable: Annotated[int, Meta(ge=0, le=2**31)] | None = None


class AddNode(Strict, frozen=True, tag_field="change", tag="add_node"):
    """A node joins, with what runs there."""

    node: NodeWire


class UpdateNode(Strict, frozen=True, tag_field="change", tag="update_node"):
    """A node is not what it was; its pods stay, and `pods` is empty."""

    node: NodeWire


class RemoveNode(Strict, frozen=True, tag_field="change", tag="remove_node"):
    """A node leaves, and its pods with it."""

    name: str


class AddPod(Strict, frozen=True, tag_field="change", tag="add_pod"):
    """A pod runs on a node, or waits (null)."""

    pod: PodWire
    node: str | None = None


class BindPod(Strict, frozen=True, tag_field="change", tag="bind_pod"):
    """A pod that waited runs on a node."""

    name: str
    node: str
    devices: Devices = ()
    since: Since = 0.0


class RemovePod(Strict, frozen=True, tag_field="change", tag="remove_pod"):
    """A pod has ended, or does not wait any more."""

    name: str


class SetBudget(Strict, frozen=True, tag_field="change", tag="set_budget"):
    """A disruption budget is new, or not what it was."""

    budget: BudgetWire


class RemoveBudget(Strict, frozen=True, tag_field="change", tag="remove_budget"):
    """A disruption budget is gone."""

    name: str
    namespace: str = "default"


Change = AddNode | UpdateNode | RemoveNode | AddPod | BindPod | RemovePod | SetBudget | RemoveBudget


def to_budget(wire: BudgetWire, path: str) -> DisruptionBudget:
    """The disruption budget that is meant."""
    try:
        return DisruptionBudget(
            wire.name,
            to_model(wire.selector, Selector, path),
            wire.namespace,
            wire.min_available,
            wire.max_unavailable,
        )
    except ValueError as error:
        raise invalid(path, str(error)) from error
