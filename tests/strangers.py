"""A module of policies from elsewhere that go wrong on purpose, and who asks beside them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

MODULE = '''
import os, re, sys
from proreus.model.decision import Place

class Good:
    """Four good decisions, then whatever it is made for."""
    def __init__(self):
        self.asked = 0
    def decide(self, observation):
        self.asked += 1
        if self.asked > 4:
            self.after()
        nodes = range(len(observation.compiled.workload.nodes))
        return Place(next(n for n in nodes if not observation.refusal(n)))
    def after(self):
        pass
class Spins(Good):
    def after(self):
        while True: pass
class Exits(Good):
    def after(self):
        sys.exit(3)
class Dies(Good):
    def after(self):
        os._exit(3)
class HoldsTheLock(Good):
    def after(self):
        re.match(r"(a+)+$", "a" * 60 + "b")
'''
HANGS = """
import time
time.sleep(600)
class Hangs:
    pass
"""


def write_strangers(folder: Path) -> Path:
    """The file of the module; beside it `hangs.py`, which cannot be imported to an end."""
    (folder / "hangs.py").write_text(HANGS)
    path = folder / "strangers.py"
    path.write_text(MODULE)
    return path


@contextmanager
def asking_beside(ask: Callable[[], None]) -> Iterator[list[float]]:
    """Seconds that each answer took to somebody who asks all the time."""
    took: list[float] = []
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(0.02):
            begin = time.monotonic()
            ask()
            took.append(time.monotonic() - begin)

    asker = threading.Thread(target=run, daemon=True)
    asker.start()
    try:
        yield took
    finally:
        ended.set()
        asker.join(60.0)


def children(process: int) -> list[int]:
    """Of a process, as the kernel lists them."""
    children: list[int] = []
    for thread in Path(f"/proc/{process}/task").iterdir():
        children += map(int, (thread / "children").read_text().split())
    return children
