"""The Huffman code of HPACK (RFC 7541, appendix B), which compresses strings of headers.

The code is canonical: codes of one length follow each other in the order of their symbols, so that the
lengths say everything.
"""

from __future__ import annotations

from functools import cache

_END = 256
_LONGEST_PADDING = 7
_LENGTHS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c"
    "060a0a0c0d06080b0a0a080b080606060505050606060606060607080f060c0a"
    "0d06070707070707070707070707070707070707070707070807080d130d0e06"
    "0f05060506050606060507070606060506070605050607070707070f0b0e0d1c"
    "1416141416161617161717171717181718181617181717171715161716171718"
    "1615141616171715171616181516171715151615171617171416161617161617"
    "1a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b"
    "14181415161515171616191918181a171a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a"
    "1e"
)
"""In bits, of the code of each byte, and of the end of a string."""


def codes() -> list[tuple[int, int]]:
    """Code and length of each symbol."""
    by_symbol = [(0, 0)] * len(_LENGTHS)
    code = length = 0
    for symbol in sorted(range(len(_LENGTHS)), key=lambda symbol: (_LENGTHS[symbol], symbol)):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        by_symbol[symbol] = (code, length)
        code += 1
    return by_symbol


@cache
def _steps() -> tuple[list[list[tuple[int, bytes] | None]], frozenset[int]]:
    """Where four bits lead from each inner node of the tree, and what they spell; None: nowhere.

    Beside it: the nodes in which a string may end, for padding is the beginning of the end's code.
    """
    children: list[list[int]] = [[0, 0]]  # a node's number, or a symbol as -1 - symbol
    for symbol, (code, length) in enumerate(codes()):
        node = 0
        for bit in range(length - 1, 0, -1):
            side = code >> bit & 1
            if not children[node][side]:
                children.append([0, 0])
                children[node][side] = len(children) - 1
            node = children[node][side]
        children[node][code & 1] = -1 - symbol
    steps: list[list[tuple[int, bytes] | None]] = []
    for start in range(len(children)):
        row: list[tuple[int, bytes] | None] = []
        for bits in range(16):
            node, spelled = start, b""
            for bit in (3, 2, 1, 0):
                node = children[node][bits >> bit & 1]
                if node == -1 - _END:
                    break
                if node < 0:
                    spelled += bytes((-1 - node,))
                    node = 0
            row.append(None if node < 0 else (node, spelled))
        steps.append(row)
    ends, node = {0}, 0
    for _ in range(_LONGEST_PADDING):
        node = children[node][1]
        ends.add(node)
    return steps, frozenset(ends)


def decoded(data: bytes) -> bytes | None:
    """The string; None where these bytes are no code."""
    steps, ends = _steps()
    node, spelled = 0, []
    for byte in data:
        for bits in (byte >> 4, byte & 15):
            step = steps[node][bits]
            if step is None:
                return None
            node, symbols = step
            spelled.append(symbols)
    return b"".join(spelled) if node in ends else None


def encoded(text: bytes) -> bytes:
    """The code of a string, padded to whole bytes."""
    table, bits, length = codes(), 0, 0
    for byte in text:
        code, size = table[byte]
        bits, length = bits << size | code, length + size
    padding = -length % 8
    return ((bits << padding) | ((1 << padding) - 1)).to_bytes((length + padding) // 8, "big")
