"""One recorder for every component: an event is written once, counted when it comes again, and made anew when
it is gone."""

from __future__ import annotations

from typing import Any

from proreus.engine.objects.event_recorder import EventRecorder, EventSeries, RecordEvent
from proreus.engine.objects.kinds import CONFIG_MAP, EVENT, POD
from proreus.engine.objects.registry import Registry
from tests.engine.objects.worlds import NOW, pod, with_registry


async def _counts(registry: Registry) -> list[tuple[str, int]]:
    return [(event["reason"], event["count"]) for event in (await registry.list(EVENT)).items]


def _happened(about: dict[str, Any], reason: str = "Unhealthy") -> RecordEvent:
    return RecordEvent(POD, about, "Warning", reason, "no")


def test_an_event_that_was_swept_away_is_made_anew() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(POD, pod())
        recorder = EventRecorder(registry, "agent", lambda: NOW)
        await recorder.commit((), [_happened(made), _happened(made)])
        assert await _counts(registry) == [("Unhealthy", 2)]
        (event,) = (await registry.list(EVENT)).items
        await Registry(registry.store).delete(EVENT, "default", event["metadata"]["name"])
        _, (outcome,) = await recorder.commit((), [_happened(made)])
        assert isinstance(outcome, dict)
        assert await _counts(registry) == [("Unhealthy", 1)]

    with_registry(scenario)


def test_events_of_one_second_are_listed_in_their_order() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(POD, pod())
        recorder = EventRecorder(registry, "agent", lambda: NOW)
        reasons = ["Pulling", "Pulled", "Created", "Started", "Killing"]
        await recorder.commit((), [_happened(made, reason) for reason in reasons])
        scheduler = EventRecorder(registry, "scheduler", lambda: NOW, lasting_names=True)
        await scheduler.commit((), [_happened(made, "Scheduled")])
        assert [reason for reason, _ in await _counts(registry)] == ["Scheduled", *reasons]

    with_registry(scenario)


def test_lasting_names_are_counted_on_by_the_next_process() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(POD, pod())
        for _ in range(3):
            recorder = EventRecorder(registry, "scheduler", lambda: NOW, EventSeries(), lasting_names=True)
            event = recorder.due(_happened(made))
            assert event is not None and recorder.due(_happened(made)) is None, "the second is held back"
            await recorder.commit((), [event])
        assert await _counts(registry) == [("Unhealthy", 3)]

    with_registry(scenario)


def test_what_is_written_with_events_has_its_own_outcomes() -> None:
    async def scenario(registry: Registry) -> None:
        made = await registry.create(POD, pod())
        elsewhere = {**made, "metadata": {**made["metadata"], "namespace": "nowhere"}}
        create = await registry.creating(CONFIG_MAP, {"metadata": {"name": "c", "namespace": "default"}})
        recorder = EventRecorder(registry, "agent", lambda: NOW)
        written, told = await recorder.commit([create], [_happened(elsewhere), _happened(made)])
        assert [isinstance(outcome, dict) for outcome in written] == [True]
        assert [isinstance(outcome, dict) for outcome in told] == [False, True], "a namespace is missing"
        (event,) = (await registry.list(EVENT)).items
        assert event["reportingInstance"] == "agent" and event["eventTime"].endswith("Z")

    with_registry(scenario)
