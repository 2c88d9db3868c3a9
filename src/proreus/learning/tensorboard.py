"""Scalars for TensorBoard, written where they are recorded.

TensorBoard's own writer works in a thread of its own: a full disk would end that thread with a traceback, and
the run would not hear of it. Here a failure to write is an OSError of whoever records.
"""

from __future__ import annotations

import importlib.util
import os
import socket
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any


class ScalarWriter:
    """One event file of a run; without TensorBoard nothing is written."""

    def __init__(self, folder: Path) -> None:
        self._writer: Any = None
        if importlib.util.find_spec("tensorboard") is None:
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.record_writer import RecordWriter

        folder.mkdir(parents=True, exist_ok=True)
        name = f"events.out.tfevents.{time.time_ns() // 10**9}.{socket.gethostname()}.{os.getpid()}"
        self._writer = RecordWriter((folder / name).open("ab"))
        self._write(Event(wall_time=time.time(), file_version="brain.Event:2"))

    def add(self, scalars: Mapping[str, float], step: int) -> None:
        """Write scalars, so that they are there even if the process is killed now."""
        if self._writer is None or not scalars:
            return
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        values = [Summary.Value(tag=name, simple_value=value) for name, value in scalars.items()]
        self._write(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))

    def _write(self, event: Any) -> None:
        self._writer.write(event.SerializeToString())
        self._writer.flush()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
