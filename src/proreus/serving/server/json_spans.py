"""Where the parts of a long JSON text begin and end, found without holding up other threads."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from proreus.kernels.arrays import I64
from proreus.kernels.jit import compiled

Bytes = NDArray[np.uint8]
_QUOTE, _BACKSLASH, _COMMA = 0x22, 0x5C, 0x2C
_OPEN_LIST, _CLOSE_LIST, _OPEN_OBJECT, _CLOSE_OBJECT = 0x5B, 0x5D, 0x7B, 0x7D


@compiled
def part_places(text: Bytes, start: int, most: int) -> I64:
    """text: [any], a list or an object begins at `start`. Its bracket, the commas between its parts, its end.

    Parts within parts are not looked into, and not checked: what stands between two places must be read by a
    parser. Empty where the text ends first. Ends after `most` + 1 places where there are more parts.
    """
    places = np.empty(most + 1, dtype=np.int64)
    places[0] = start
    found, depth, quoted, i = 1, 0, False, start
    while i < text.shape[0]:
        byte = text[i]
        if quoted:
            if byte == _BACKSLASH:
                i += 1
            elif byte == _QUOTE:
                quoted = False
        elif byte == _QUOTE:
            quoted = True
        elif byte in (_OPEN_LIST, _OPEN_OBJECT):
            depth += 1
        elif byte in (_CLOSE_LIST, _CLOSE_OBJECT, _COMMA):
            if byte != _COMMA:
                depth -= 1
            if depth == 0 or (depth == 1 and byte == _COMMA):
                if found > most:
                    return places
                places[found] = i
                found += 1
                if depth == 0:
                    return places[:found]
        i += 1
    return places[:0]
