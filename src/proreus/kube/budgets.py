"""A PodDisruptionBudget object as the model's `DisruptionBudget`."""

from __future__ import annotations

import math
from collections.abc import Callable

from proreus.data.cursor import Entry
from proreus.data.table import parse_number
from proreus.kube.constraints import read_label_selector
from proreus.model.selectors import Selector
from proreus.model.workload import DisruptionBudget


def read_budget(item: Entry, covered: Callable[[str, Selector], int]) -> DisruptionBudget:
    """The budget; covered: how many pods of a namespace a selector selects (of them is a percentage)."""
    selector = read_label_selector(item.find("spec.selector"))
    namespace = item.text_at("metadata.namespace", "default")
    lowest, highest = item.find("spec.minAvailable"), item.find("spec.maxUnavailable")
    if (lowest is None) == (highest is None):
        raise item.require("spec").fail("a disruption budget has either minAvailable or maxUnavailable")

    def count() -> int:
        return covered(namespace, selector)

    return DisruptionBudget(
        name=item.require("metadata.name").text(),
        selector=selector,
        namespace=namespace,
        min_available=None if lowest is None else _pod_count(lowest, count),
        max_unavailable=None if highest is None else _pod_count(highest, count),
    )


def _pod_count(entry: Entry, covered: Callable[[], int]) -> int:
    """A number of pods, or a percentage of the `covered` ones, rounded up as Kubernetes does."""
    if not entry.is_text():
        return entry.integer()
    text = entry.text()
    if not text.endswith("%"):
        return entry.integer()
    try:
        percentage = parse_number(text.removesuffix("%"))
    except ValueError as error:
        raise entry.fail(str(error)) from None
    return math.ceil(percentage * covered() / 100)
