"""What a scheduler noted on a pod: where it went, why, and what its shadow would have done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from proreus.cli.cluster.sections import Section

ANNOTATION = "proreus.io/decision"


def decision_section(noted: str) -> Section:
    """The note in words; what cannot be read is shown as it is."""
    section = Section("Decision")
    try:
        decision = json.loads(noted) if noted else {}
    except ValueError:
        decision = None
    if not isinstance(decision, dict):
        section.add("Noted", noted)
        return section
    section.add("Policy", decision.get("policy"))
    section.add("Decided", _told(decision))
    section.add("Because", *(decision.get("reasons") or ()))
    shadow = decision.get("shadow")
    if isinstance(shadow, Mapping):
        says = f"{shadow.get('policy', 'another policy')} would have chosen {_told(shadow)}"
        section.add("Shadow", says, shadow.get("would"))
    return section


def _told(decision: Mapping[str, Any]) -> str:
    action, node = str(decision.get("action", "")), str(decision.get("node") or "")
    return f"{action} on {node}" if action and node else action or node
