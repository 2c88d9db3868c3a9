"""ImageLocality: what it is worth that a node has the images of a pod."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from proreus.kernels.arrays import I64
from proreus.model.node import Node
from proreus.model.resources import MIB

_FLOOR, _CEILING = 23 * MIB, 1000 * MIB


class ImageSpread:
    """Which nodes have which images; nodes come and go."""

    def __init__(self) -> None:
        self._holders: dict[str, dict[str, int]] = {}
        """Image -> name of a node that has it -> bytes."""

    def add(self, node: Node) -> None:
        """The images of a node that came."""
        for image, size in node.images:
            self._holders.setdefault(image, {}).setdefault(node.name, size)

    def remove(self, node: Node) -> None:
        """The images of a node that went."""
        for image, _ in node.images:
            holders = self._holders.get(image, {})
            holders.pop(node.name, None)
            if not holders:
                self._holders.pop(image, None)

    def scores(self, images: Sequence[str], volumes: Sequence[str], rows: dict[str, int]) -> I64:
        """int64[N], rows: name -> row of every node, in order.

        Bytes present, scaled by how widespread each image is, clamped and mapped to 0..100. Images of volumes
        add to the bytes but do not raise the ceiling, as in kube-scheduler.
        """
        scores = np.zeros(len(rows), dtype=np.int64)
        if not images or not self._holders:
            return scores
        for image in map(tagged, (*images, *volumes)):
            holders = self._holders.get(image)
            if holders:
                at = [rows[name] for name in holders]
                # Where nodes tell different sizes, that of the first in order holds for all.
                size = holders[min(holders, key=rows.__getitem__)]
                scores[at] += int(size * (len(holders) / len(rows)))
        ceiling = _CEILING * len(images)
        return 100 * (np.clip(scores, _FLOOR, ceiling) - _FLOOR) // (ceiling - _FLOOR)


def tagged(image: str) -> str:
    """The image name of a pod with its tag; nodes' names are taken as they are."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
