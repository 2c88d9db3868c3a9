"""What a record of the experience log holds, as bytes: the arrays of an `Experience` as they are.

A report is one or more records that stand or fall together. The older format of the log had a frame per
record and knew no reporters; its payloads are read here too.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from proreus.model.experience import Experience

_ABOUT = struct.Struct("<qIIIB")  # model version, B, S, A, whether there are masks
_REPORT = struct.Struct("<QI")  # reporter, records
_LENGTH = struct.Struct("<I")


class NotARecord(ValueError):
    """Bytes that no report can have been written as."""


def encode_report(records: Sequence[Experience]) -> bytes:
    """The payload of a frame: the records of one reporter's report."""
    pieces = [_REPORT.pack(records[0].reporter, len(records))]
    for record in records:
        content = encode(record)
        pieces += (_LENGTH.pack(len(content)), content)
    return b"".join(pieces)


def decode_report(payload: bytes, number: int) -> list[Experience]:
    """The records of a payload that `encode_report` made, of which the first has this number."""
    try:
        reporter, count = _REPORT.unpack_from(payload)
        at, report = _REPORT.size, []
        for _ in range(count):
            (length,) = _LENGTH.unpack_from(payload, at)
            at += _LENGTH.size
            report.append(decode(payload[at : at + length], (reporter, number)))
            at += length
    except struct.error as error:
        raise NotARecord(str(error)) from error
    return report


def encode(record: Experience) -> bytes:
    """One record."""
    count = len(record)
    states = np.ascontiguousarray(record.states, dtype="<f8")
    masks = record.masks
    return b"".join(
        (
            _ABOUT.pack(record.model_version, count, states.shape[1], record.actions_dim, masks is not None),
            states.tobytes(),
            np.ascontiguousarray(record.actions, dtype="<i8").tobytes(),
            np.ascontiguousarray(record.rewards, dtype="<f8").tobytes(),
            np.ascontiguousarray(record.log_probs, dtype="<f8").tobytes(),
            np.packbits(record.dones).tobytes(),
            np.packbits(record.greedy).tobytes(),
            b"" if masks is None else np.packbits(masks).tobytes(),
        )
    )


def decode(content: bytes, origin: tuple[int, int]) -> Experience:
    """The record that `encode` wrote; NotARecord where it cannot have written these bytes.

    origin: who reported it, and with which report.
    """
    try:
        version, count, length, actions_dim, masked = _ABOUT.unpack_from(content)
    except struct.error as error:
        raise NotARecord(str(error)) from error
    flags = -(-count // 8)
    size = _ABOUT.size + 8 * count * (length + 3) + 2 * flags
    size += -(-count * actions_dim // 8) if masked else 0
    if size != len(content):
        raise NotARecord(f"{len(content)} bytes where {size} belong")
    at = _ABOUT.size

    def take(kind: str, items: int) -> np.ndarray[Any, Any]:
        nonlocal at
        found = np.frombuffer(content, dtype=kind, count=items, offset=at)
        at += found.nbytes
        return found

    def bits(items: int) -> np.ndarray[Any, Any]:
        return np.unpackbits(take("u1", -(-items // 8)), count=items).astype(np.bool_)

    states = take("<f8", count * length).reshape(count, length)
    actions, rewards, log_probs = take("<i8", count), take("<f8", count), take("<f8", count)
    dones, greedy = bits(count), bits(count)
    masks = bits(count * actions_dim).reshape(count, actions_dim) if masked else None
    if not (np.isfinite(states).all() and np.isfinite(rewards).all()):
        raise NotARecord("numbers that are not finite")
    if count and not (actions.min() >= 0 and actions.max() < actions_dim):
        raise NotARecord(f"actions outside 0..{actions_dim - 1}")
    columns = (states, actions, rewards, dones, log_probs, greedy)
    return Experience(*columns, version, actions_dim, masks, *origin)
