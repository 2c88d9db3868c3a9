"""A scheduler's note on a pod, read back."""

from __future__ import annotations

import json

import pytest

from proreus.engine.objects.decision_annotation import PolicyChoice, read_decision

NOTE = {
    "policy": "kube",
    "node": "node-1",
    "score": 669,
    "next": {"node": "node-2", "score": 565},
    "feasible": 2,
    "of": 3,
    "refused": {"Insufficient cpu": 1},
    "shadow": {"policy": "fgd", "node": "node-2", "would": "an empty node less in use"},
}


def test_a_note_is_told_in_sentences() -> None:
    noted = read_decision(json.dumps(NOTE))
    assert noted is not None
    assert noted.choice == PolicyChoice("kube", "place", "node-1")
    assert noted.reasons == (
        "node-1 scored 669, next came node-2 with 565",
        "2 of 3 nodes could take it",
        "the others: 1 Insufficient cpu",
    )
    assert noted.differs and noted.shadow == PolicyChoice("fgd", "place", "node-2")
    assert noted.as_json()["shadow"]["would"] == "an empty node less in use"


@pytest.mark.parametrize(
    ("fallback", "says", "fell_back"),
    [
        ("deadline", "the kube rules decided in place of mine: it was too slow", True),
        ("nominated", "room was made for it there before", False),
    ],
)
def test_why_the_policy_did_not_decide(fallback: str, says: str, fell_back: bool) -> None:
    noted = read_decision(json.dumps({"policy": "mine", "node": "n", "fallback": fallback}))
    assert noted is not None and noted.reasons == (says,) and noted.fallback is fell_back


def test_what_the_policy_raised_is_told() -> None:
    note = {"policy": "mine", "node": "n", "fallback": "error", "why": "ValueError: no idea"}
    noted = read_decision(json.dumps(note))
    assert noted is not None
    assert noted.reasons == ("the kube rules decided in place of mine: it failed (ValueError: no idea)",)


def test_other_actions() -> None:
    for note, choice in (
        ({"policy": "p", "preempts": "n"}, PolicyChoice("p", "preempt", "n")),
        ({"policy": "p", "decision": "reject"}, PolicyChoice("p", "reject")),
        ({}, PolicyChoice("", "delay")),
    ):
        noted = read_decision(json.dumps(note))
        assert noted is not None and noted.choice == choice and not noted.differs


@pytest.mark.parametrize("text", [None, "", "no JSON", "[]", '"x"', "[" * 100_000])
def test_what_is_no_note(text: str | None) -> None:
    assert read_decision(text) is None
