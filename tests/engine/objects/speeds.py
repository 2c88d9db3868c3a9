"""What a pod costs the registry: CPU time to create it and to bind it, in batches, over each embedded store.

Run as a module: `python -m tests.engine.objects.speeds`.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Sequence

from proreus.engine.objects.errors import StatusError
from proreus.engine.objects.kinds import POD
from proreus.engine.objects.registry import Binding, Outcome, Registry
from proreus.engine.store.factory import open_store
from tests.engine.objects.worlds import pod

PODS = 10_000


async def measure(address: str) -> str:
    """One line of the table."""
    store = await open_store(address)
    registry = Registry(store)
    await registry.prepare()
    began = time.process_time()
    made = _done(await registry.create_many(POD, [pod(f"web-{place}") for place in range(PODS)]))
    created = time.process_time()
    bindings = [Binding("default", name, "node-1", annotations={"reason": "fits"}) for name in made]
    _done(await registry.bind_many(bindings))
    bound = time.process_time()
    await store.close()
    each = [1e6 * seconds / PODS for seconds in (created - began, bound - created, bound - began)]
    scheme = address.partition(":")[0]
    return f"{scheme:8} create {each[0]:5.0f} us  bind {each[1]:5.0f} us  both {each[2]:5.0f} us"


def _done(outcomes: Sequence[Outcome]) -> list[str]:
    names = [outcome["metadata"]["name"] for outcome in outcomes if not isinstance(outcome, StatusError)]
    assert len(names) == PODS
    return names


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for place in ("memory:", f"sqlite:{folder}/engine.db"):
            print(asyncio.run(measure(place)))  # noqa: T201
