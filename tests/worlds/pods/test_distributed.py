"""Lanes in shares: whoever plays which of them, what was played is the same to the last bit."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import BrokenExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proreus.model.errors import InputError, WorkError
from proreus.workers.threads import Threads
from proreus.worlds.pods.policies.scorer import initial_parameters, new_scorer_scratch
from proreus.worlds.pods.training.batched_lanes import BatchedPods, BatchOptions
from proreus.worlds.pods.training.distributed import LaneHost, Share
from proreus.worlds.pods.training.rollout import new_rollout, shared_out, sum_of
from tests.cli.runner import environment
from tests.learning.learning_cases import bits, gpu_world, small_world

LANES, STEPS = 5, 12
PARAMS = initial_parameters(4)


@given(st.integers(1, 200), st.integers(1, 60))
def test_shares_are_all_lanes_in_order_and_nearly_equal(lanes: int, shares: int) -> None:
    parts = shared_out(lanes, shares)
    assert [e for share in parts for e in share] == list(range(lanes))
    assert len(parts) == shares
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def make(share: Share = (0, 1)) -> BatchedPods:
    """Lanes over two clusters of different size; with five lanes, shares begin at either."""
    options = BatchOptions(share=share)
    return BatchedPods([small_world(3), gpu_world(6)], LANES, seed=2, horizon=25, options=options)


def played_here(batch: BatchedPods) -> dict[str, Any]:
    """Two rollouts in one batch: the second, and what ended in it."""
    rollout = new_rollout(LANES, STEPS, batch.nodes)
    for _ in range(2):
        ended = batch.play(PARAMS, [rollout], [new_scorer_scratch(batch.nodes)], Threads(1))
    rows = [rollout.rows[e, : rollout.start[e, -1]] for e in range(LANES)]
    return {"rollout": rollout, "rows": rows, "ended": ended, "state": batch.capture()}


@pytest.mark.parametrize("shares", [1, 2, 3, 5])
def test_hosts_play_what_one_batch_would_play(shares: int) -> None:
    whole = played_here(make())
    hosts = [LaneHost() for _ in range(shares)]
    assert {host.prepare(make, (k, shares), STEPS) for k, host in enumerate(hosts)} == {6}
    params = PARAMS.copy()
    params.flags.writeable = False  # as it comes through Ray
    for _ in range(2):
        played = [host.play(params) for host in hosts]
    assert sum_of([ended for ends, _, _ in played for ended in ends]) == whole["ended"]
    rows = [row for _, of_host, _ in played for row in of_host]
    assert [bits(row) for row in rows] == [bits(row) for row in whole["rows"]]
    for name in played[0][2]:
        together = np.concatenate([arrays[name] for _, _, arrays in played])
        assert bits(together) == bits(getattr(whole["rollout"], name)), name
    state = {name: array for host in hosts for name, array in host.capture().items()}
    assert state.keys() == whole["state"].keys()
    assert all(bits(state[name]) == bits(array) for name, array in whole["state"].items())


def test_lanes_that_played_together_go_on_in_shares() -> None:
    batch = make()
    played_here(batch)
    saved = batch.capture()
    expected = played_here(batch)["state"]
    hosts = [LaneHost(), LaneHost()]
    for k, host in enumerate(hosts):
        host.prepare(make, (k, 2), STEPS)
        host.restore(saved)
        host.play(PARAMS)
        host.play(PARAMS)
    state = {name: array for host in hosts for name, array in host.capture().items()}
    assert all(bits(state[name]) == bits(array) for name, array in expected.items())


def test_what_happens_on_a_cluster_is_told_as_if_it_had_happened_here() -> None:
    exceptions = pytest.importorskip("ray.exceptions", reason="needs the extra ray")
    from proreus.workers.ray import as_ours

    ours = InputError("bad", file="x")
    assert as_ours(exceptions.RayTaskError("f", "long\ntraceback", ours)) is ours
    theirs = as_ours(exceptions.RayTaskError("f", "long\ntraceback", ModuleNotFoundError("No module\nhere")))
    assert isinstance(theirs, WorkError)
    assert str(theirs) == "on a Ray worker: ModuleNotFoundError: No module"
    assert isinstance(as_ours(exceptions.WorkerCrashedError()), BrokenExecutor)
    assert isinstance(as_ours(exceptions.ActorDiedError()), BrokenExecutor)


def test_without_ray_nothing_of_it_is_imported(tmp_path: Any) -> None:
    code = """
import sys
from proreus.cli.main import main
assert main(["compare", "pods", "--policies", "fgd", "--seeds", "1", "--processes", "1"]) == 0
ppo = "--algo ppo --scenarios gpu@4 --steps 32 --lanes 2 --rollout-steps 8 --horizon 20 --train-seeds 1"
assert main(["train", "pods", *ppo.split(), "--validation-seeds", "1"]) == 0
assert not [name for name in sys.modules if name.split(".")[0] == "ray"]
print("fine")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.endswith("fine\n"), done.stderr
