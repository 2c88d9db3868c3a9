"""Says on stderr that kernels are compiled, where they really are, and how far that is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from proreus.cli.output import Output
from proreus.kernels.compile_notice import heard_by

COMPILING = "compiling kernels, once for this version"
_EVERY_SECONDS = 10.0


@contextmanager
def compiling_said(output: Output) -> Iterator[None]:
    """While the block runs: a line when the first kernel is compiled, and one every ten seconds after it."""
    said_at = float("-inf")

    def hear(begun: int) -> None:
        nonlocal said_at
        if output.quiet or time.monotonic() - said_at < _EVERY_SECONDS:
            return
        said_at = time.monotonic()
        far = "takes about a minute" if begun == 1 else f"{begun} so far"
        print(f"proreus: {COMPILING} ({far})", file=sys.stderr, flush=True)

    with heard_by(hear):
        yield
