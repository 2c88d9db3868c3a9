"""Random graphs, machines and arrivals."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from proreus.worlds.workflows.model import Arrivals, MachineKind, Workflow, WorkflowsTerms, workflow_of


@st.composite
def workflows(draw: st.DrawFn, most: int = 9) -> Workflow:
    """A graph of a few tasks; some take no time, some edges carry nothing."""
    tasks = draw(st.integers(1, most))
    runtime = draw(st.lists(st.sampled_from([0.0, 1.0, 7.5, 40.0, 333.0]), min_size=tasks, max_size=tasks))
    edges = {}
    for child in range(1, tasks):
        for parent in draw(st.sets(st.integers(0, child - 1), max_size=3)):
            edges[parent, child] = draw(st.sampled_from([0.0, 1e6, 5e7, 2e9]))
    return workflow_of(("drawn", "drawn"), [f"t{at}" for at in range(tasks)], runtime, edges)


@st.composite
def all_terms(draw: st.DrawFn) -> WorkflowsTerms:
    """Few machines, short rentals."""
    kinds = draw(
        st.lists(st.sampled_from([(2, 1.0, 0.1), (1, 2.5, 0.3), (2, 8.0, 1.0)]), min_size=1, max_size=3)
    )
    return WorkflowsTerms(
        machines=tuple(MachineKind(*kind) for kind in kinds),
        bandwidth=1e7,
        billing=draw(st.sampled_from([60.0, 100.0, 3600.0])),
        boot=draw(st.sampled_from([0.0, 13.0])),
        deadline=draw(st.sampled_from([1.0, 5.0])),
    )


@st.composite
def all_arrivals(draw: st.DrawFn) -> Arrivals:
    """One workflow to be planned, or several that arrive."""
    terms = draw(all_terms())
    if draw(st.booleans()):
        return Arrivals("plan", (draw(workflows()),), np.zeros(1), np.full(1, np.inf), terms, ahead=True)
    drawn = tuple(draw(st.lists(workflows(6), min_size=1, max_size=4)))
    gaps = draw(st.lists(st.sampled_from([0.0, 5.0, 500.0]), min_size=len(drawn), max_size=len(drawn)))
    arrival = np.cumsum(gaps)
    return Arrivals("online", drawn, arrival, arrival + 60.0, terms, ahead=False)
