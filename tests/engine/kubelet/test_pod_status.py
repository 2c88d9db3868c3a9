"""What a node tells of a pod, put into what stands."""

from __future__ import annotations

import pytest

from proreus.engine.kubelet.pod_status import TERMINAL, merged

PHASES = ("Pending", "Running", *TERMINAL)


@pytest.mark.parametrize("standing", TERMINAL)
@pytest.mark.parametrize("told", PHASES)
def test_a_pod_that_has_ended_keeps_the_end_that_was_told_first(standing: str, told: str) -> None:
    """Killed shims are told as failures; the exit of their container may be found later. Were the pod to
    succeed then, a Job that has replaced it would have one success too many."""
    status = merged({"phase": standing}, {"phase": told, "conditions": [], "message": "found later"}, 0.0)
    if told == standing:
        assert status is not None and status["message"] == "found later"
    else:
        assert status is None


@pytest.mark.parametrize("told", PHASES)
def test_a_pod_that_runs_may_end_either_way(told: str) -> None:
    status = merged({"phase": "Running"}, {"phase": told, "conditions": [], "message": "new"}, 0.0)
    assert status is not None and status["phase"] == told
