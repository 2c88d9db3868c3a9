"""Lanes of a GPU = lanes of the host, in all cases of `test_device_lanes`, by kernels that Triton compiles.

`python -m tests.worlds.pods.on_a_gpu` exits with 2 where they cannot be compiled, and says why. The tests
play the same kernels by Triton's interpreter (`test_fused_lanes`); `--device cpu` plays operations of torch.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Literal

import torch

from proreus.learning.tensor_lanes.triton_support import why_no_kernels
from tests.worlds.pods.test_device_lanes import CASES, play_case

_LANES = 16


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="on_a_gpu", description=__doc__)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--cases", nargs="*", choices=CASES, default=[*CASES], metavar="CASE")
    asked = parser.parse_args(words)
    where: Literal["cpu", "cuda"] = asked.device
    if where == "cuda" and (reason := _refusal()):
        sys.stderr.write(f"on_a_gpu: {reason}\n")
        return 2
    for case in asked.cases:
        lanes = play_case(case, _LANES, where)
        world = type(lanes.world).__name__
        sys.stdout.write(f"{case}: {len(lanes)} lanes of {world} on {lanes.device} are those of the host\n")
    return 0


def _refusal() -> str | None:
    """Why no kernels are compiled here."""
    if not torch.cuda.is_available():
        return "torch knows no CUDA device here"
    return why_no_kernels(torch.device("cuda"))


if __name__ == "__main__":
    sys.exit(main())
