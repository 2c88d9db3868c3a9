"""What the doors open onto: deciding, feedback, versions. One of these is behind all doors of a process."""

from __future__ import annotations

from dataclasses import dataclass

from proreus.serving.cluster_api.decide import NamedDecisions
from proreus.serving.decision_service import DecisionService
from proreus.serving.messages import Health
from proreus.serving.models.live_version import LiveVersions
from proreus.serving.online.feedback import Feedback


@dataclass(frozen=True)
class ServiceParts:
    """The parts of a running service."""

    service: DecisionService
    feedback: Feedback
    versions: LiveVersions
    named: NamedDecisions

    def health(self) -> Health:
        """That the service answers, and with what."""
        return self.service.health(self.feedback.learning, self.feedback.trouble or self.named.trouble)
