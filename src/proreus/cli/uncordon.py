"""`proreus uncordon NODE...`: see `cordon`."""

from __future__ import annotations

from collections.abc import Sequence

from proreus.cli.cordon import mark


def run(words: Sequence[str]) -> int:
    """New pods for these nodes again."""
    return mark("uncordon", words, unschedulable=False)
