"""Proreus in a notebook: compare rules with a policy of your own, look at the result, plot it.

pip install -c constraints.txt -e .
python examples/00_python.py
"""

from __future__ import annotations

import numpy as np

import proreus


class Emptiest:
    """A policy is a class with a `decide`: here the legal node with most CPU free, else wait."""

    def decide(self, observation: object) -> int:
        """The number of an action: a node, or the second but last, which is to wait."""
        mask = observation.action_mask()  # type: ignore[attr-defined]
        nodes = (len(mask) - 2) // 2
        if not mask[:nodes].any():
            return 2 * nodes
        free = observation.state.free[:, 0]  # type: ignore[attr-defined]
        return int(np.where(mask[:nodes], free, -1).argmax())


def main() -> None:
    """Print what there is, compare, and keep a picture."""
    print(proreus.worlds())
    result = proreus.compare("pods", "small", ["kube", "best_fit", Emptiest], seeds=3)
    print(result)
    print(result.rows[0])
    result.plot().savefig("ranking.png")
    run = proreus.simulate("vms", "recovering@5", "learned", record=True)
    print(run.measures["placements"], "machines placed before one fits nowhere, on average")
    run.plot().savefig("run.png")


if __name__ == "__main__":
    main()
