"""What a scheduler noted on a pod, as a section: where it went, why, and what its shadow would have done."""

from __future__ import annotations

from proreus.cli.cluster.sections import Section
from proreus.engine.objects.decision_annotation import PolicyChoice, read_decision


def decision_section(annotation: str) -> Section:
    """The note in words."""
    section = Section("Decision")
    noted = read_decision(annotation)
    if noted is None:
        section.add("Noted", annotation)
        return section
    section.add("Policy", noted.choice.policy)
    section.add("Decided", _choice_text(noted.choice))
    section.add("Because", *noted.reasons)
    if noted.shadow is not None:
        agrees = (
            f"would have chosen {_choice_text(noted.shadow)}" if noted.differs else "would have done the same"
        )
        section.add("Shadow", f"{noted.shadow.policy} {agrees}", noted.would)
    return section


def _choice_text(choice: PolicyChoice) -> str:
    return f"{choice.action} on {choice.node}" if choice.node else choice.action
