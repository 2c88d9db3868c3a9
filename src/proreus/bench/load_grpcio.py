"""The load of `load` by grpcio's own client, to say what that client costs: it is what people use.

64 tasks in one event loop, each with one call under way, over a few channels. The client spends several times
what the server spends on a call, so that the rate is the client's.
"""

from __future__ import annotations

import asyncio
import time

import grpc

_CHANNELS = 4
_Answers = list[float]


async def ask_by_grpcio(
    address: str, path: str, bodies: list[bytes], clients: int, seconds: tuple[float, float]
) -> tuple[_Answers, int, float]:
    """(answer times, answers before the measurement, seconds it took); seconds: to warm up, to measure."""
    channels = [
        grpc.aio.insecure_channel(address, options=(("grpc.use_local_subchannel_pool", 1),))
        for _ in range(min(_CHANNELS, clients))
    ]
    times: _Answers = []
    warmed = 0
    begin = time.perf_counter() + seconds[0]
    until = begin + seconds[1]

    async def client(index: int) -> None:
        nonlocal warmed
        call = channels[index % len(channels)].unary_unary(path)
        number = index
        while (sent := time.perf_counter()) < until:
            await call(bodies[number % len(bodies)])
            number += 1
            if sent >= begin:
                times.append(time.perf_counter() - sent)
            else:
                warmed += 1

    await asyncio.gather(*(client(index) for index in range(clients)))
    took = time.perf_counter() - begin
    for channel in channels:
        await channel.close()
    return times, warmed, took
