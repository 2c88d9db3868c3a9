"""How many fields a message of protobuf has: found without parsing it, and without holding up threads."""

from __future__ import annotations

from proreus.kernels.jit import compiled
from proreus.serving.server.json_spans import Bytes

_VARINT, _DOUBLE, _BYTES, _FLOAT = 0, 1, 2, 5


@compiled
def field_count(data: Bytes, most: int) -> int:
    """data: [any], a message of protobuf. Its fields, up to `most` + 1; -1 where it is none."""
    count, at = 0, 0
    while at < data.shape[0] and count <= most:
        # The number of a field is a varint, its lowest three bits say how long the field is.
        kind = data[at] & 7
        while at < data.shape[0] and data[at] >= 0x80:
            at += 1
        at += 1
        if kind == _VARINT:
            while at < data.shape[0] and data[at] >= 0x80:
                at += 1
            at += 1
        elif kind == _DOUBLE:
            at += 8
        elif kind == _FLOAT:
            at += 4
        elif kind == _BYTES:
            length, shift = 0, 0
            while at < data.shape[0] and data[at] >= 0x80:
                if shift > 28:
                    return -1
                length |= (int(data[at]) & 0x7F) << shift
                at, shift = at + 1, shift + 7
            if at >= data.shape[0]:
                return -1
            at += 1 + (length | (int(data[at]) << shift))
        else:
            return -1
        count += 1
    return count if at <= data.shape[0] else -1
