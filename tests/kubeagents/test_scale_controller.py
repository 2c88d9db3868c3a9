"""Replicas are written where they should be, and nowhere else."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from proreus.kubeagents.scaler.agent import ScalerAgent, ScalerAgentOptions
from proreus.kubeagents.scaler.scale_controller import PREFIX, ScaleController, read_scaled
from proreus.kubeclient.client import ClientOptions, KubeClient, RetryPolicy
from proreus.kubeclient.fake import FakeApiServer
from proreus.kubeclient.reflector import Change
from proreus.kubeclient.resources import DEPLOYMENTS
from proreus.kubeclient.transport import Response
from proreus.serving.messages import Refusal, Refused

Object = dict[str, Any]
_QUICK = ClientOptions(retry=RetryPolicy(seconds=0.1, first=0.01, longest=0.02))


def _deployment(name: str = "llm", replicas: int = 2, **asked: str) -> Object:
    annotations = {f"{PREFIX}{key}": value for key, value in {"enabled": "true", **asked}.items()}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    spec = {"replicas": replicas}
    return {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": metadata, "spec": spec}


def _step(
    deployment: Object, wanted: int | Refused, forbidden: str = "", server: FakeApiServer | None = None
) -> tuple[ScaleController, int]:
    """One look at one Deployment; (the controller, the replicas that the server has afterwards)."""

    async def main() -> tuple[ScaleController, int]:
        api = server or FakeApiServer()
        kept = api.put("deployments", deployment, "apps")

        def answer(namespace: str, name: str, metadata: Mapping[str, str]) -> int:
            if isinstance(wanted, Refused):
                raise wanted
            return wanted

        controller = ScaleController(KubeClient(api, _QUICK), answer, lambda: forbidden)
        controller.hear(Change("ADDED", {**kept, "kind": "Deployment"}))
        await controller.step()
        return controller, api.all("deployments", "apps")[0]["spec"]["replicas"]

    return asyncio.run(main())


def test_what_is_wanted_is_written() -> None:
    controller, replicas = _step(_deployment(), 5)
    assert replicas == 5 and controller.counts["scaled"] == 1
    assert controller.figures() == {
        ("Deployment default/llm", "there"): 2.0,
        ("Deployment default/llm", "wanted"): 5.0,
    }


@pytest.mark.parametrize(
    ("deployment", "wanted", "forbidden", "why"),
    [
        (_deployment(), 5, "dry run", "dry run"),
        (_deployment(shadow="current"), 5, "", "in shadow"),
        (_deployment(replicas=0), 5, "", "scaled it to 0"),
        (_deployment(), Refused(Refusal.UNAVAILABLE, "no replica could be read"), "", "no replica"),
        (_deployment(), 2, "anything", ""),
    ],
)
def test_what_is_not_written_says_why(
    deployment: Object, wanted: int | Refused, forbidden: str, why: str
) -> None:
    before = deployment["spec"]["replicas"]
    controller, replicas = _step(deployment, wanted, forbidden)
    (outcome,) = controller.outcomes.values()
    assert replicas == before and why in outcome.why and bool(why) == bool(outcome.why)


def test_from_zero_where_that_is_meant() -> None:
    assert _step(_deployment(replicas=0, least="0"), 1)[1] == 1


def test_only_who_asks_is_scaled() -> None:
    assert read_scaled(DEPLOYMENTS, _deployment(enabled="false")) is None
    leaving = _deployment()
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert read_scaled(DEPLOYMENTS, leaving) is None
    bare = _deployment()
    del bare["metadata"]["annotations"], bare["spec"]["replicas"]
    assert read_scaled(DEPLOYMENTS, bare) is None
    asked = read_scaled(DEPLOYMENTS, _deployment(policy="learned", least="2"))
    assert asked is not None and asked.metadata == {"policy": "learned", "least": "2"}


def test_a_server_that_refuses_is_told_and_asked_again() -> None:
    server = FakeApiServer()
    forbids = b'{"kind":"Status","code":403,"reason":"Forbidden","message":"may not scale"}'
    server.answer = lambda request: (
        Response(403, forbids, {"content-type": "application/json"}) if request.method == "PATCH" else None
    )
    controller, replicas = _step(_deployment(), 5, server=server)
    (outcome,) = controller.outcomes.values()
    assert replicas == 2 and "may not scale" in outcome.why


def test_an_agent_leads_by_its_lease_and_heeds_the_switch(tmp_path: Path) -> None:
    async def main() -> None:
        server = FakeApiServer()
        server.put("deployments", _deployment(), "apps")
        wanted = [5]
        switch = tmp_path / "stop"
        agents = [
            ScalerAgent(
                KubeClient(server, _QUICK),
                lambda *_: wanted[0],
                ScalerAgentOptions(f"agent-{number}", interval=0.05, stop_file=switch),
            )
            for number in range(2)
        ]
        ended = threading.Event()
        async with asyncio.timeout(30), asyncio.TaskGroup() as tasks:
            for agent in agents:
                tasks.create_task(agent.run(ended))

            def replicas() -> int:
                return int(server.all("deployments", "apps")[0]["spec"]["replicas"])

            while replicas() != 5:
                await asyncio.sleep(0.02)
            assert sorted(bool(agent.forbidden()) for agent in agents) == [False, True]
            switch.touch()
            await asyncio.sleep(0.2)
            wanted[0] = 7
            await asyncio.sleep(0.5)
            assert replicas() == 5 and all("stop" in agent.forbidden() for agent in agents)
            switch.unlink()
            while replicas() != 7:
                await asyncio.sleep(0.02)
            ended.set()

    asyncio.run(main())
