"""Runs an engine until SIGINT or SIGTERM, the second of which ends the process at once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from proreus.cli.output import Output
from proreus.cli.signals import StopEvent

if TYPE_CHECKING:
    from proreus.engine.cluster import Engine, EngineOptions
    from proreus.engine.gc_tuning import GcTuning


def run_until_told(ending: StopEvent, options: EngineOptions, announce: Callable[[Engine], None]) -> Engine:
    """Open the engine, say so, and close it when told to end; as it was then."""
    from proreus.engine.cluster import Engine
    from proreus.engine.gc_tuning import GcTuning

    # What this process starts are other programs, in which nothing of gRPC goes on: its care for forks would
    # only write a line on stderr for each. gRPC reads this when it is loaded, which it is not yet.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    engine, searches = Engine(options), GcTuning()
    engine.load()
    with searches.kept_short(), asyncio.Runner(loop_factory=new_loop()) as runner:
        runner.run(_run(engine, searches, ending, announce))
    return engine


def new_loop() -> Callable[[], asyncio.AbstractEventLoop]:
    """The fastest that there is."""
    try:
        import uvloop
    except ImportError:  # there is none for Windows
        return asyncio.new_event_loop
    return uvloop.new_event_loop


async def _run(
    engine: Engine, searches: GcTuning, ending: StopEvent, announce: Callable[[Engine], None]
) -> None:
    event = asyncio.Event()

    def end(number: int) -> None:
        if ending.is_set():
            os._exit(128 + number)
        ending.set()
        event.set()

    loop = asyncio.get_running_loop()
    ending.loaded()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, end, number)
    searching = asyncio.create_task(searches.run())
    try:
        await engine.run(event, announce)
    finally:
        searching.cancel()


def say(output: Output, text: str) -> None:
    """How far it is, on stderr."""
    if not output.quiet:
        print(f"proreus: {text}", file=sys.stderr, flush=True)
