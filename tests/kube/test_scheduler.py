"""The scheduler of somebody else's cluster, over the embedded API: it is a Kubernetes API like another."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proreus.cli.kube_scheduler import LeaseArguments, SchedulerArguments, banner
from proreus.cli.main import main
from proreus.engine.controllers.promotion.controller import PromotionOptions
from proreus.engine.controllers.promotion.core import Evidence, GateOptions, LiveEvidence
from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.trace.reader import read_trace
from proreus.kubeagents.scheduler.agent import KubeScheduler, KubeSchedulerOptions
from proreus.kubeagents.scheduler.own_names import Canary
from proreus.kubeclient.client import KubeClient, Object
from proreus.kubeclient.config import ClusterConfig
from proreus.kubeclient.leases import LeaseDurations
from proreus.kubeclient.resources import CONFIG_MAPS, EVENTS, NODES, PODS
from proreus.model.duel import Duel
from tests.engine.api.live import Live, live

_DURATIONS = LeaseDurations(1.0, 0.7, 0.1)
_OPTIONS = KubeSchedulerOptions(durations=_DURATIONS)


@pytest.fixture
def door() -> Iterator[Live]:
    with live() as door:
        yield door


def _node(name: str, cpu: str = "4") -> Object:
    size = {"cpu": cpu, "memory": "16Gi", "pods": "20"}
    return {"metadata": {"name": name}, "status": {"allocatable": size, "capacity": size}}


def _pod(name: str, cpu: str = "500m", scheduler: str = "proreus", **spec: Any) -> Object:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "1Gi"}}}
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"containers": [container], "schedulerName": scheduler, **spec},
    }


async def _until(true: Callable[[], Awaitable[bool]], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not await true():
        assert time.monotonic() < end, "it never came about"
        await asyncio.sleep(0.05)


async def _nodes_of(client: KubeClient) -> dict[str, str]:
    return {
        pod["metadata"]["name"]: pod["spec"].get("nodeName") or "" for pod in (await client.list(PODS)).items
    }


@contextlib.asynccontextmanager
async def _running(door: Live, options: KubeSchedulerOptions = _OPTIONS) -> AsyncIterator[KubeScheduler]:
    client = KubeClient.of(ClusterConfig(door.url))
    scheduler = KubeScheduler(client, options)
    task = asyncio.create_task(scheduler.run())
    try:
        yield scheduler
    finally:
        await scheduler.stop()
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        await client.close()
        assert isinstance(ended, asyncio.CancelledError), ended


def _scene(door: Live, work: Callable[[KubeClient], Awaitable[None]]) -> None:
    async def main() -> None:
        client = KubeClient.of(ClusterConfig(door.url))
        try:
            async with asyncio.timeout(90):
                await work(client)
        finally:
            await client.close()

    asyncio.run(main())


async def _condition(client: KubeClient, name: str) -> dict[str, Any]:
    pod = await client.get(PODS, name, "default")
    conditions = pod["status"].get("conditions") or ()
    return next((dict(one) for one in conditions if one["type"] == "PodScheduled"), {})


def test_it_binds_its_own_pods_and_says_why_others_wait(door: Live) -> None:
    async def work(client: KubeClient) -> None:
        for n in range(2):
            await client.create(NODES, _node(f"n{n}"))
        for made in (_pod("a"), _pod("huge", "64"), _pod("theirs", scheduler="nobody")):
            await client.create(PODS, made)
        async with _running(door):

            async def placed() -> bool:
                nodes = await _nodes_of(client)
                return bool(nodes["a"]) and bool(await _condition(client, "huge"))

            await _until(placed)
            await asyncio.sleep(0.3)
            assert not (await _nodes_of(client))["theirs"]
            assert not await _condition(client, "theirs"), "it does not speak to others' pods"
            told = await _condition(client, "huge")
            assert (told["status"], told["reason"]) == ("False", "Unschedulable")
            assert told["message"].startswith("0/2 nodes are available: 2 Insufficient cpu.")
            noted = (await client.get(PODS, "a", "default"))["metadata"]["annotations"]
            assert json.loads(noted["proreus.io/decision"])["policy"] == "kube"

            async def told_of() -> bool:
                reasons = {event["reason"] for event in (await client.list(EVENTS)).items}
                return {"Scheduled", "FailedScheduling"} <= reasons

            await _until(told_of)

    _scene(door, work)


def test_of_two_replicas_one_decides_and_the_other_takes_over(door: Live) -> None:
    async def work(client: KubeClient) -> None:
        await client.create(NODES, _node("n"))
        async with _running(door) as first, _running(door) as second:
            for n in range(2):
                await client.create(PODS, _pod(f"p{n}", "100m"))

                async def bound(n: int = n) -> bool:
                    return bool((await _nodes_of(client))[f"p{n}"])

                await _until(bound)
                leaders = [one for one in (first, second) if one.leadership.mandate is not None]
                assert len(leaders) == 1
                await leaders[0].leadership.resign()
            assert first.core.counts["bound"] + second.core.counts["bound"] == 2

    _scene(door, work)


def test_a_claim_of_resources_and_a_disk_in_the_pod_are_refused_clearly(door: Live) -> None:
    async def work(client: KubeClient) -> None:
        await client.create(NODES, _node("n"))
        claims = [{"name": "gpu", "resourceClaimName": "x"}]
        await client.create(PODS, _pod("dra", resourceClaims=claims))
        disk = [{"name": "d", "iscsi": {"targetPortal": "1.2.3.4", "iqn": "iqn.x", "lun": 0}}]
        await client.create(PODS, _pod("disk", volumes=disk))
        async with _running(door):

            async def told() -> bool:
                return bool(await _condition(client, "dra")) and bool(await _condition(client, "disk"))

            await _until(told)
            message = (await _condition(client, "dra"))["message"]
            assert "resource claims (dynamic resource allocation) are not supported" in message
            assert "iscsi is not handled by this scheduler" in (await _condition(client, "disk"))["message"]

    _scene(door, work)


def test_what_happens_is_recorded_and_a_candidate_goes_its_way(door: Live, tmp_path: Path) -> None:
    """Who judges is a stand-in here; what it says is carried out."""
    verdicts = iter([0.5, 0.5])

    async def weigh(values: object, case: object) -> Evidence:
        gain = next(verdicts, 0.5)
        waits = tuple((10.0 + n % 3, (10.0 + n % 3) * (1 - gain)) for n in range(20))
        return Evidence(Duel(200, waits, ((0.0, 0.0),) * 20), LiveEvidence())

    promotion = PromotionOptions("x:y", 0.1, GateOptions(least_pods=3), weigh)
    options = replace(
        _OPTIONS,
        chosen=Chosen("kube", candidate="best_fit", share=0.5),
        record=tmp_path / "record",
        promotion=promotion,
    )

    async def work(client: KubeClient) -> None:
        await client.create(NODES, _node("n", "16"))
        async with _running(door, options) as scheduler:
            for n in range(4):
                await client.create(PODS, _pod(f"p{n}", "100m"))

            async def promoted() -> bool:
                maps = {item["metadata"]["name"]: item for item in (await client.list(CONFIG_MAPS)).items}
                data = (maps.get("proreus-scheduler-promotion") or {}).get("data") or {}
                return '"stage":"share"' in data.get("proreus", "")

            await _until(promoted, 40)
            await _until(lambda: _true(scheduler.core.schedulers.promotions["proreus"].stage == "share"))

    _scene(door, work)
    trace = read_trace(str(tmp_path / "record"))
    assert {pod.name for pod in trace.pods} == {f"default/p{n}" for n in range(4)}
    assert all(pod.bound is not None for pod in trace.pods)
    words = ["simulate", "pods", "--format", "engine", "--from", str(tmp_path / "record"), "--quiet"]
    assert main(words) == 0, "the record is work that can be played"


async def _true(value: bool) -> bool:
    return value


def test_a_share_is_the_canarys_for_ever(door: Live) -> None:
    options = replace(_OPTIONS, canary=Canary("best_fit", 0.5))

    async def work(client: KubeClient) -> None:
        await client.create(NODES, _node("n", "16"))
        async with _running(door, options):
            for n in range(15):
                await client.create(PODS, _pod(f"p{n}", "100m"))

            async def bound() -> bool:
                return all((await _nodes_of(client)).values())

            await _until(bound)
            policies = [
                json.loads(pod["metadata"]["annotations"]["proreus.io/decision"])["policy"]
                for pod in (await client.list(PODS)).items
            ]
            assert set(policies) == {"best_fit", "kube"}

    _scene(door, work)


def test_the_banner_says_whether_it_binds_and_where_the_kill_switch_is() -> None:
    assert banner(SchedulerArguments(policy="learned")) == [
        "scheduler: policy learned, binds pods whose schedulerName is proreus",
        "kill switch: ConfigMap kube-system/proreus-scheduler",
    ]
    lease = LeaseArguments(lease_namespace="proreus", lease_name="mine")
    stopped_by = banner(SchedulerArguments(lease=lease, kill_switch=Path("/stop")))[1]
    assert stopped_by == "kill switch: ConfigMap proreus/mine or file /stop"
    shadow = SchedulerArguments(policy="learned", mode="shadow", record=Path("found"))
    assert banner(shadow) == ["shadow of learned: binds nothing, writes to found"]


def test_a_refused_token_is_told_with_who_refused_it(tmp_path: Path) -> None:
    async def main() -> tuple[str, str, int | None]:
        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\nConnection: close\r\n\r\nwho?")
            writer.close()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        address = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        kubeconfig = tmp_path / "kubeconfig"
        content = {
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": address}}],
            "users": [{"name": "u", "user": {"token": "old"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        kubeconfig.write_text(json.dumps(content))
        words = ("kube", "scheduler", "--port", "0", "--kubeconfig", str(kubeconfig))
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "proreus", *words, stderr=asyncio.subprocess.PIPE
        )
        async with server, asyncio.timeout(60):
            _, said = await process.communicate()
        return address, said.decode(), process.returncode

    address, said, code = asyncio.run(main())
    assert said == f"proreus: the cluster could not be followed: {address} answers 401: who?\n"
    assert code == 1


def test_what_cannot_be_followed_is_told(door: Live) -> None:
    async def work(client: KubeClient) -> None:
        async with _running(door) as scheduler:

            async def synced() -> bool:
                return scheduler.synced

            await _until(synced)
            reflector = scheduler.followed[-1]

            reflector._client = KubeClient.of(ClusterConfig("http://127.0.0.1:9"))
            task = asyncio.create_task(reflector.resync())

            async def told() -> bool:
                return any("cannot be reached" in trouble for trouble in scheduler.troubles())

            await _until(told, 60)
            task.cancel()

    _scene(door, work)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--mode", "shadow"], "--mode shadow needs --record DIR"),
        (["--canary", "kube"], "--canary comes with"),
        (["--canary-share", "2"], "outside 0..1"),
        (["--candidate", "learned"], "--candidate needs --record DIR"),
        (["--policy", "no-such-policy", "--kubeconfig", "CONFIG"], "no-such-policy"),
        (["--lease-seconds", "1"], "--retry-seconds is below"),
        (["--kubeconfig", "/no/such/file"], "/no/such/file"),
        (["--port", "70000"], "outside 0..65535"),
    ],
)
def test_bad_usage_is_one_line_and_2(
    words: list[str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
        "clusters: [{name: c, cluster: {server: 'http://127.0.0.1:9'}}]\n"
        "contexts: [{name: c, context: {cluster: c}}]\n"
    )
    assert main(["kube", "scheduler", *(str(config) if word == "CONFIG" else word for word in words)]) == 2
    error = capsys.readouterr().err
    assert told in error and error.count("\n") == 1
