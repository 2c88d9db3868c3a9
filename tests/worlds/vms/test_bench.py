"""`proreus bench vms` on small sizes: the peer is a fair one, and every claim has its row."""

from __future__ import annotations

import numpy as np
import pytest

from proreus.worlds.vms.bench import claims as vms
from proreus.worlds.vms.bench.peer import PeerEnv, peer_rate
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.catalogue import make_vm_policy
from proreus.worlds.vms.simulation.runs import planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS, compile_trace, with_servers


@pytest.mark.parametrize("servers", [1, 3, 6])
def test_the_peer_places_as_first_fit_does(servers: int) -> None:
    trace, options = generate_vms(3_000, servers), with_servers(SCENARIOS["recovering"], servers)
    starts = [10, 400, 900, 1_500]
    rate, placed = peer_rate(PeerEnv(trace, options.double, servers), starts, 10_000)
    runs = planned_runs(compile_trace(trace, options.double), options, np.array(starts))
    figures, _ = play_runs(runs, make_vm_policy("first_fit"))
    assert [run.placed for run in figures][: len(placed)] == placed and placed
    assert rate > 0


def test_every_claim_has_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vms, "_RUN", 40)
    monkeypatch.setattr(vms, "_LANES", 4)
    monkeypatch.setattr(vms, "_REPEATS", 1)
    monkeypatch.setattr(vms, "SIZES", (2, 100))
    messages: list[str] = []
    rows = {row.what: row for row in vms.bench_vms(None, messages.append)}
    assert messages and all(row.ours > 0 for row in rows.values())
    first = rows["batched environment, 100 servers, generated machines"]
    assert first.goal == 2_600_000 and first.peer is not None and first.ratio is not None
    assert rows["times as fast as the plain Python loop, 100 servers"].goal == 1_000
    growth = rows["growth of the cost for 50 times the servers"]
    assert growth.goal == 50 and growth.ok
