"""The peer of `proreus bench vms`: virtual machines as a plain Python world of objects, with an agent loop.

It is written the way VMAgent's environment is: a list of server objects, a dictionary of machines on every
NUMA node, and three attributes (request, state, mask) gathered anew for every decision.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proreus.worlds.vms.model import DoubleRule, VmTrace


class PeerServer:
    """A server with two NUMA nodes."""

    def __init__(self, cpu: float, mem: float) -> None:
        self.cpu = [cpu, cpu]
        self.mem = [mem, mem]
        self.machines: list[dict[int, tuple[float, float]]] = [{}, {}]

    def fits(self, request: dict[str, Any]) -> list[int]:
        """Whether the request fits, by NUMA node."""
        if request["double"]:
            half_cpu, half_mem = request["cpu"] / 2, request["mem"] / 2
            good = all(self.cpu[n] >= half_cpu and self.mem[n] >= half_mem for n in range(2))
            return [1, 1] if good else [0, 0]
        return [int(self.cpu[n] >= request["cpu"] and self.mem[n] >= request["mem"]) for n in range(2)]

    def place(self, request: dict[str, Any], numa: int) -> None:
        """Take what the request asks for."""
        parts = 2 if request["double"] else 1
        for node in (0, 1) if request["double"] else (numa,):
            amount = (request["cpu"] / parts, request["mem"] / parts)
            self.cpu[node] -= amount[0]
            self.mem[node] -= amount[1]
            self.machines[node][request["id"]] = amount

    def remove(self, machine: int) -> bool:
        """Give back what the machine took; whether it was here."""
        removed = False
        for node in range(2):
            if machine in self.machines[node]:
                cpu, mem = self.machines[node].pop(machine)
                self.cpu[node] += cpu
                self.mem[node] += mem
                removed = True
        return removed

    def describe(self) -> list[list[float]]:
        """What is free."""
        return [[self.cpu[node], self.mem[node]] for node in range(2)]


class PeerEnv:
    """Events one by one; stops with the first creation that fits nowhere."""

    def __init__(self, trace: VmTrace, double: DoubleRule, servers: int) -> None:
        splits = double.splits(trace.cpu, trace.mem)
        self.requests: list[dict[str, Any]] = []
        for event in trace.events.tolist():
            machine = event if event >= 0 else -1 - event
            self.requests.append(
                {
                    "id": machine,
                    "cpu": float(trace.cpu[machine]),
                    "mem": float(trace.mem[machine]),
                    "double": bool(splits[machine]),
                    "delete": event < 0,
                }
            )
        self.count = servers
        self.created = {
            request["id"]: row for row, request in enumerate(self.requests) if not request["delete"]
        }

    def reset(self, machine: int) -> None:
        """An empty cluster at the creation of a machine."""
        self.servers = [PeerServer(40.0, 90.0) for _ in range(self.count)]
        self.row = self.created[machine]

    def get_attr(self, name: str) -> Any:
        """The request, the state or the mask, each worked out when asked for."""
        request = self.requests[self.row]
        if name == "req":
            cpu, mem = request["cpu"], request["mem"]
            if request["double"]:
                return [[[cpu / 2, mem / 2] for _ in range(2)] for _ in range(2)]
            return [[[cpu, mem], [0, 0]], [[0, 0], [cpu, mem]]]
        if name == "obs":
            return self._state()
        return np.array([server.fits(request) for server in self.servers]).reshape(-1)

    def step(self, action: int) -> tuple[NDArray[np.float64], bool]:
        """Place, let deletions happen; the state, and whether the episode is over."""
        self.servers[action // 2].place(self.requests[self.row], action % 2)
        self.row += 1
        while self.row < len(self.requests) and self.requests[self.row]["delete"]:
            for server in self.servers:
                if server.remove(self.requests[self.row]["id"]):
                    break
            self.row += 1
        if self.row >= len(self.requests):
            return self._state(), True
        return self._state(), not self.get_attr("avail").any()

    def _state(self) -> NDArray[np.float64]:
        return np.array([server.describe() for server in self.servers])


def peer_rate(env: PeerEnv, starts: list[int], most: int) -> tuple[float, list[int]]:
    """Steps per CPU-second of an agent that takes the first fit, and the placements of each episode."""
    placed: list[int] = []
    steps, run, over = 0, 0, True
    begin = time.process_time()
    for _ in range(most):
        if over:
            env.reset(starts[len(placed)])
            run = 0
        state = {"feat": env.get_attr("req"), "obs": env.get_attr("obs"), "avail": env.get_attr("avail")}
        _, over = env.step(int(np.argmax(state["avail"])))
        steps, run = steps + 1, run + 1
        if over:
            placed.append(run)
            if len(placed) == len(starts):
                break
    return steps / (time.process_time() - begin), placed
