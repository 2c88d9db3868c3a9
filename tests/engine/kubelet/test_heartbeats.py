"""How signs of life are spread over time."""

from __future__ import annotations

import pytest

from proreus.engine.kubelet.heartbeats import beats_for


@pytest.mark.parametrize(
    ("nodes", "beats"), [(0, 4), (1, 4), (200, 4), (201, 5), (1_000, 20), (2_000, 40), (100_000, 40)]
)
def test_few_nodes_have_few_beats_and_many_are_not_renewed_at_once(nodes: int, beats: int) -> None:
    assert beats_for(nodes) == beats
