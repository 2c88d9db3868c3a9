"""Golden cases of the kube-scheduler rules, worked out by hand, and the builders they are written with.

Every implementation of the rules must give these numbers: run CASES, SAMPLING_CASES and ROTATION_CASES.
"""

from __future__ import annotations

from tests.oracles.kube_builders import (
    UNCHECKED,
    Case,
    RotationCase,
    SamplingCase,
    Unchecked,
    app,
    condition,
    near,
    node,
    node_term,
    pod,
    runs,
)
from tests.oracles.kube_cases_filters import FILTER_CASES
from tests.oracles.kube_cases_preemption import PREEMPTION_CASES
from tests.oracles.kube_cases_scores import ROTATION_CASES, SAMPLING_CASES, SCORE_CASES

__all__ = [
    "CASES",
    "ROTATION_CASES",
    "SAMPLING_CASES",
    "UNCHECKED",
    "Case",
    "RotationCase",
    "SamplingCase",
    "Unchecked",
    "app",
    "condition",
    "near",
    "node",
    "node_term",
    "pod",
    "runs",
]

CASES: tuple[Case, ...] = (*FILTER_CASES, *SCORE_CASES, *PREEMPTION_CASES)
