"""Networks in torch there and back between their flat vectors, which the kernels read."""

from __future__ import annotations

import numpy as np
import torch

from proreus.kernels.arrays import F32
from proreus.worlds.pods.policies.scorer import LAYOUT, PARAMETERS, part
from proreus.worlds.pods.policies.torch_networks import Scorer


def to_vector(network: Scorer) -> F32:
    """The flat vector of a network, as the kernels read it."""
    vector = np.zeros(PARAMETERS, dtype=np.float32)
    for name in LAYOUT:
        part(vector, name)[:] = network.get_parameter(name).detach().cpu().numpy()
    return vector


def from_vector(vector: F32) -> Scorer:
    """The network whose flat vector this is."""
    network = Scorer()
    with torch.no_grad():
        for name in LAYOUT:
            network.get_parameter(name).copy_(torch.from_numpy(part(vector, name)))
    return network
