"""The online learner's process: `Worker` at work until it is told to stop, or until the service is gone."""

from __future__ import annotations

import multiprocessing
import os
import threading
import traceback
from multiprocessing.connection import Connection, wait
from typing import Any

from proreus.model.errors import ProreusError
from proreus.serving.online.worker import Job, Worker, find_improve


def run_worker(job: Job, pipe: Connection) -> None:
    """The worker's process."""
    end_with_the_service()
    os.nice(job.niceness)
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ[name] = "1"  # the service needs the cores more
    try:
        worker = Worker(job, find_improve(job.improve))
        _serve(worker, pipe)
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        return  # the service is gone or going


def end_with_the_service() -> None:
    """End this process as soon as the one that started it is gone, in the middle of a round too.

    Whoever learns next must not meet it: what it would publish was learned from what is learned from again.
    """
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="service-watch", daemon=True).start()


def _serve(worker: Worker, pipe: Connection) -> None:
    stopping = False
    pipe.send(_said(worker, "waiting"))
    while True:
        if worker.take():
            pipe.send(_said(worker, "waiting"))
        if worker.ready():
            _learn(worker, pipe)
        if stopping:
            worker.remember()
            worker.close()
            return
        pause = 0.0 if worker.behind or worker.ready() else worker.job.poll_seconds
        stopping = pipe.poll(pause) and pipe.recv() == "stop"


def _learn(worker: Worker, pipe: Connection) -> None:
    """One round, and what came of it."""
    pipe.send(_said(worker, "learning"))
    came: dict[str, Any]
    try:
        last = worker.learn()
        kind = "one_accepted" if last["accepted"] else "one_rejected"
        came = {kind: True, "last": last, "failure": ""}
    except ProreusError as error:
        came = {"failure": str(error)}
    except Exception:  # noqa: BLE001  a learner is somebody else's code: say what broke, go on serving
        came = {"failure": traceback.format_exc(limit=-2)}
    pipe.send({**_said(worker, "waiting"), "one_rounds": True, **came})


def _said(worker: Worker, state: str) -> dict[str, Any]:
    return {"state": state, "queue": worker.queue, "oldest": worker.oldest, "unusable": worker.unusable}
