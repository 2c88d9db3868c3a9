"""What must hold at every moment of a run, recounted from its slots."""

from __future__ import annotations

import numpy as np

from proreus.kernels.arrays import I64, Bool
from proreus.worlds.inference.simulation import columns as c
from proreus.worlds.inference.simulation.cluster import InferenceCluster

_WORKING = (c.ACTIVE, c.DRAINING)


def check(cluster: InferenceCluster) -> None:
    """Raises an AssertionError that says which law is broken."""
    run = cluster.run
    fleet = run.fleet[run.fleet[:, c.STATUS] != c.ABSENT]
    assert (fleet[:, c.MEMORY] <= fleet[:, c.CAPACITY]).all(), "KV memory exceeds what there is"
    assert (fleet[:, c.MEMORY] + fleet[:, c.CACHED] <= fleet[:, c.CAPACITY]).all(), "the cache is too large"
    assert (fleet[:, c.CACHED] >= 0).all(), "more was taken out of the cache than was in it"
    assert (fleet[:, c.MEMORY] >= fleet[:, c.WEIGHTS]).all(), "more KV memory was given back than taken"
    for instance, row in enumerate(run.fleet):
        _check_instance(cluster, instance, row)
    slots = run.slot[run.slot[:, c.PHASE] != c.FREE]
    requests = [*slots[:, c.REQUEST], *cluster.rows()[:, c.L_REQUEST].astype(int)]
    assert sorted(requests) == list(range(run.tally[c.NEXT_REQUEST])), "a request is missing or there twice"
    assert len(slots) == run.tally[c.UNDER_WAY]


def _check_instance(cluster: InferenceCluster, instance: int, row: I64) -> None:
    run, slots = cluster.run, cluster.run.slot
    live = slots[:, c.PHASE] > c.AT_ROUTER
    prompt_here = live & (slots[:, c.PROMPT_AT] == instance) & (slots[:, c.PHASE] != c.DECODE)
    token_here = live & (slots[:, c.TOKEN_AT] == instance)
    assert row[c.BOUND] == (prompt_here | token_here).sum(), "bonds are miscounted"
    to_do = prompt_here & (slots[:, c.PHASE] == c.PREFILL)
    assert row[c.PROMPTS_TO_DO] == to_do.sum(), "prompts are miscounted"
    assert row[c.TOKENS_TO_DO] == token_here.sum(), "requests with tokens to come are miscounted"
    members = [
        pool
        for pool in range(len(run.pools.size))
        for place in range(run.pools.size[pool])
        if run.pools.cells[pool, run.pools.begin[pool] + place] == instance
    ]
    if row[c.STATUS] == c.ACTIVE:
        assert members == [row[c.OF_MODEL] * c.ROLES + row[c.POOL]], "an active instance is in one pool"
    else:
        assert not members, "an instance that is not active would get work"
    if row[c.STATUS] not in _WORKING:
        assert row[c.BOUND] == row[c.BATCH] == run.waiting.size[instance] == 0, "work on an inactive instance"
    if row[c.STATUS] in _WORKING and row[c.BOUND] == 0:
        assert row[c.MEMORY] == row[c.PLANNED_MEMORY] == row[c.WEIGHTS], "memory that belongs to nobody"
        assert row[c.PLANNED_TOKENS] == 0, "tokens that belong to nobody"
    assert row[c.BATCH] <= row[c.BATCH_LIMIT], "the batch is too large"
    if row[c.STATUS] in _WORKING and row[c.IN_STEP] > 1:
        _check_step(cluster, instance, int(row[c.GROUP]))
    planned = _planned(cluster, instance, prompt_here, token_here)
    if row[c.STATUS] in _WORKING:
        assert row[c.PLANNED_MEMORY] == row[c.WEIGHTS] + planned, "planned memory is miscounted"


def _check_step(cluster: InferenceCluster, instance: int, group: int) -> None:
    run = cluster.run
    fellows = [
        int(run.fellows.cells[group, run.fellows.begin[group] + place])
        for place in range(run.fellows.size[group])
    ]
    assert instance in fellows and len(fellows) <= run.fleet[instance, c.IN_STEP], "a group is too large"
    assert all(run.event_place[one] == c.NOBODY for one in fellows[1:]), "a group has several events"
    counts = {int(run.fleet[one, c.RUNNING]) for one in fellows} - {0}
    ends = {float(run.figure[one, c.RUN_END]) for one in fellows if run.fleet[one, c.RUNNING]}
    assert len(counts) <= 1 and len(ends) <= 1, "those in step do not iterate together"


def _planned(
    cluster: InferenceCluster,
    instance: int,
    prompt_here: Bool,
    token_here: Bool,
) -> int:
    row, slots = cluster.run.fleet[instance], cluster.run.slot
    tokens = np.where(token_here, slots[:, c.PROMPT] + slots[:, c.OUTPUT], slots[:, c.PROMPT] + 1)
    if row[c.ENGINE] == c.CHUNKED:
        tokens = -(-tokens // row[c.BLOCK]) * row[c.BLOCK]
    return int(tokens[prompt_here | token_here].sum() * row[c.KV_BYTES])
