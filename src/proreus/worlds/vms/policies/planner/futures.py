"""Futures: what may come, played by a fast rule on a copy of the servers, from one choice of a place on.

Machines come, leave, wait and are turned away as in the world itself, with the kernels of its servers.
Servers that are still to be added stay closed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from proreus.kernels.arrays import F64, I32, I64
from proreus.kernels.jit import compiled
from proreus.kernels.structs import pack, packable
from proreus.worlds.vms.model import ENDS, TURNS_AWAY, WAITS
from proreus.worlds.vms.policies.columns import VmRule
from proreus.worlds.vms.policies.rules import choose_place
from proreus.worlds.vms.state.departures import first_to_leave, note_departure
from proreus.worlds.vms.state.servers import Flavours, Servers, give_back, new_servers, take

LANE, RUNNING, FULL = range(3)


@packable
class VmFuture(NamedTuple):
    """R machines that run, in the order in which they leave, then the one at hand and those to come."""

    flavour: I32  # [R + H]
    place: I32  # [R + H] of those that run
    arrival: F64  # [R + H] seconds
    leaving: F64  # [R] seconds
    stay: F64  # [R + H] seconds, of those that do not run yet
    given: I64  # [3] the lane of the servers, R, what becomes of a machine that fits nowhere


@packable
class Board(NamedTuple):
    """Where a future is played, one choice after the other."""

    servers: Servers
    flavours: Flavours
    place: I32  # [M] of the future's machines
    leaving: F64  # [1, M] heap of the moments at which machines leave
    leaver: I32  # [1, M] the machine of each
    queued: I64  # [1] how many are in the heap


def new_board(servers: Servers, flavours: Flavours, most: int) -> Board:
    """For futures of at most so many machines."""
    return pack(
        Board(
            servers=new_servers(servers.capacity, flavours, 1),
            flavours=flavours,
            place=np.zeros(most, dtype=np.int32),
            leaving=np.zeros((1, most)),
            leaver=np.zeros((1, most), dtype=np.int32),
            queued=np.zeros(1, dtype=np.int64),
        )
    )


@compiled
def play_future(board: Board, servers: Servers, rule: VmRule, future: VmFuture, place: int) -> float:
    """What comes of it if the machine at hand goes to `place`, more is better: machines placed before one
    finds no room, or minus those turned away, or minus the seconds waited."""
    _set_up(board, servers, future)
    full, first = future.given[FULL], future.given[RUNNING]
    now, waited, away = future.arrival[first], 0.0, 0
    for machine in range(first, future.flavour.size):
        flavour = future.flavour[machine]
        now = max(now, future.arrival[machine])
        _leave_until(board, future, now)
        if machine > first and board.servers.room[0, flavour] == 0:
            if full == ENDS:
                return float(machine - first)
            if full == TURNS_AWAY:
                away += 1
                continue
            while board.servers.room[0, flavour] == 0 and board.queued[0] > 0:
                now = board.leaving[0, 0]
                _leave_until(board, future, now)
            if board.servers.room[0, flavour] == 0:
                break  # not even in empty servers: whatever is chosen now
        waited += now - future.arrival[machine]
        chosen = place
        if machine > first:
            chosen = choose_place(board.servers, board.flavours, 0, flavour, rule)
        take(board.servers, board.flavours, 0, chosen, flavour)
        board.place[machine] = chosen
        note_departure(board.leaving, board.leaver, 0, board.queued[0], (now + future.stay[machine], machine))
        board.queued[0] += 1
    if full == WAITS:
        return -waited
    return -float(away) if full == TURNS_AWAY else float(future.flavour.size - first)


@compiled
def _set_up(board: Board, servers: Servers, future: VmFuture) -> None:
    """The servers as they are, and who will leave them when."""
    own, lane, running = board.servers, future.given[LANE], future.given[RUNNING]
    own.free[0] = servers.free[lane]
    own.shown[0] = servers.shown[lane]
    own.words[0] = servers.words[lane]
    own.room[0] = servers.room[lane]
    own.before_words[0] = servers.before_words[lane]
    for machine in range(running):  # in order, which is a heap already
        board.place[machine] = future.place[machine]
        board.leaving[0, machine] = future.leaving[machine]
        board.leaver[0, machine] = machine
    board.queued[0] = running


@compiled
def _leave_until(board: Board, future: VmFuture, moment: float) -> None:
    while board.queued[0] > 0 and board.leaving[0, 0] <= moment:
        machine = first_to_leave(board.leaving, board.leaver, 0, board.queued[0])
        board.queued[0] -= 1
        give_back(board.servers, board.flavours, 0, board.place[machine], future.flavour[machine])
