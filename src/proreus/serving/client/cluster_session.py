"""A cluster that a service keeps: described once, then told what changes.

    kept = KeptCluster(client, describe)      # describe() -> the nodes with their pods, and the budgets, now
    kept.note(AddPod(pod, "node-3"))          # travels with the next question
    answer = kept.decide(other, bind=True)    # and counts as running where the answer puts it

A service that was started again, or that had to make room, has lost the cluster: it is described anew, and
nobody notices but the clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from proreus.serving.client.rest import RestClient, ServiceError
from proreus.serving.cluster_api.changes import BudgetWire, Change
from proreus.serving.cluster_api.request import DecideAnswer, DecideRequest
from proreus.serving.cluster_api.schema import NodeWire, PodWire

Described: TypeAlias = tuple[Sequence[NodeWire], Sequence[BudgetWire]]


class KeptCluster:
    """One session of a service, and what it has not heard yet."""

    def __init__(self, client: RestClient, describe: Callable[[], Described]) -> None:
        self._client, self._describe = client, describe
        self._session, self._generation = "", 0
        self._unsaid: list[Change] = []

    def note(self, *changes: Change) -> None:
        """What has happened, to be told with the next question."""
        if self._session:
            self._unsaid.extend(changes)  # before that, the description will have it

    def decide(
        self, pod: PodWire | None, *, waiting: int = 0, explain: bool = False, bind: bool = False
    ) -> DecideAnswer:
        """What to do with the pod; without one, only tell what has happened."""
        if self._session:
            asked = DecideRequest(
                pod,
                waiting=waiting,
                explain=explain,
                session=self._session,
                generation=self._generation,
                changes=self._unsaid,
                bind=bind,
            )
            try:
                return self._heard(self._client.decide(asked))
            except ServiceError as error:
                if error.field not in ("session", "generation"):
                    self._session = ""  # it may have ended the session
                    raise
        nodes, budgets = self._describe()
        whole = DecideRequest(
            pod,
            list(nodes),
            waiting=waiting,
            explain=explain,
            budgets=list(budgets),
            keep=True,
            bind=bind,
        )
        return self._heard(self._client.decide(whole))

    def _heard(self, answer: DecideAnswer) -> DecideAnswer:
        self._session, self._generation = answer.session, answer.generation
        self._unsaid = []
        return answer
