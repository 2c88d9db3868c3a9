"""Prompts that begin alike: the numbers of their blocks, by which a prefix cache knows them.

A block is so many tokens of a prompt; its number stands for all that is written up to its end, so equal
numbers mean equal prompts up to there. What is left of a prompt behind its last whole block has no number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proreus.kernels.arrays import I32, I64


@dataclass(frozen=True, eq=False)
class PrefixBlocks:
    """Of all requests of a trace, one after the other."""

    begin: I64
    """[N + 1] where the blocks of each request begin."""
    number: I64
    """[blocks of all requests]"""
    tokens: int = 512
    """Of a block."""

    def __post_init__(self) -> None:
        if self.tokens < 1 or (np.diff(self.begin) < 0).any() or self.begin[-1] != len(self.number):
            raise ValueError("blocks of so many tokens, those of each request after those of the last one")

    def of(self, request: int) -> I64:
        """The numbers of one request's blocks."""
        return self.number[self.begin[request] : self.begin[request + 1]]

    def chosen(self, requests: I64, copy: I64) -> PrefixBlocks:
        """Those of some requests; requests of different copies have nothing in common."""
        numbers = int(self.number.max(initial=-1)) + 1
        sizes = np.diff(self.begin)[requests]
        parts = [self.of(int(request)) for request in requests]
        found = np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)
        begin = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        return PrefixBlocks(begin, found + numbers * np.repeat(copy, sizes), self.tokens)

    def ideal_reuse(self) -> int:
        """Tokens that a cache without limit would not compute again."""
        known, first = np.unique(self.number, return_index=True)
        return (len(self.number) - len(first)) * self.tokens if known.size else 0


def blocks_of(rows: list[list[int]], tokens: int = 512) -> PrefixBlocks:
    """From the numbers of each request's blocks."""
    begin = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    flat = [number for row in rows for number in row]
    return PrefixBlocks(begin, np.array(flat, dtype=np.int64), tokens)


def own_blocks(prompts: I32, tokens: int) -> PrefixBlocks:
    """Of prompts that have nothing in common: a request that is put back finds what is left of its own."""
    begin = np.concatenate([[0], np.cumsum(prompts // tokens, dtype=np.int64)])
    return PrefixBlocks(begin, np.arange(begin[-1], dtype=np.int64), tokens)
