"""ImageLocality: what it is worth that a node has the images of a pod (called by `compile.py` alone)."""

from __future__ import annotations

from collections.abc import Sequence

from proreus.model.node import Node
from proreus.model.resources import MIB

_FLOOR, _CEILING = 23 * MIB, 1000 * MIB


class ImageSpread:
    """Which nodes have which images."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._holders: dict[str, set[int]] = {}
        self._sizes: dict[str, int] = {}
        for n, node in enumerate(nodes):
            for image, size in node.images:
                self._holders.setdefault(image, set()).add(n)
                # Where nodes tell different sizes, that of the first holds for all.
                self._sizes.setdefault(image, size)
        self._nodes = len(nodes)

    def score(self, images: Sequence[str], volumes: Sequence[str], n: int) -> int:
        """Bytes present, scaled by how widespread each image is, clamped and mapped to 0..100.

        Images of volumes add to the bytes but do not raise the ceiling, as in kube-scheduler.
        """
        if not images or not self._holders:
            return 0
        found = 0
        for image in map(tagged, (*images, *volumes)):
            holders = self._holders.get(image, set())
            if n in holders:
                found += int(self._sizes[image] * (len(holders) / self._nodes))
        ceiling = _CEILING * len(images)
        return 100 * (min(max(found, _FLOOR), ceiling) - _FLOOR) // (ceiling - _FLOOR)


def tagged(image: str) -> str:
    """The image name of a pod with its tag; nodes' names are taken as they are."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
