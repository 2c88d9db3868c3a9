"""One container of a pod ended alone, and begun again, the same with every runtime."""

from __future__ import annotations

import asyncio

from proreus.engine.runtimes.protocol import Phase
from tests.engine.runtimes.benches import Place, container, pod_of

_WAITS = "trap 'exit 3' TERM; sleep 1000 & wait"


def test_one_container_ends_and_the_other_runs_on(place: Place) -> None:
    async def scene() -> None:
        async with place.bench() as bench:
            pod = pod_of(container(_WAITS, "main"), container(_WAITS, "beside"), restartPolicy="Always")
            uid = pod["metadata"]["uid"]
            bench.runtime.start(pod, ["main", "beside"])
            await bench.running(uid, "main")
            await bench.running(uid, "beside")
            bench.runtime.stop_container(uid, "main", 10.0)
            end = await bench.ended(uid, "main")
            assert end.exit_code == (3 if place.real else 143)
            reports = {one.name: one for one in bench.reports[uid].containers}
            assert reports["beside"].phase is Phase.RUNNING
            bench.runtime.start_container(uid, "main", 1)
            await bench.until(
                uid, lambda one: one["main"].phase is Phase.RUNNING and one["main"].attempt == 1
            )
            bench.runtime.stop_container(uid, "nobody", 1.0)
            bench.runtime.stop_container("no-such-pod", "main", 1.0)

    asyncio.run(scene())
