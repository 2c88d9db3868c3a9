"""An honest client in a process of its own: asks for decisions all the time, and tells how long they took.

`python -m tests.serving.attacks.honest rest|grpc PORT` asks until its input ends, then prints its figures.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time

ADDRESS = "127.0.0.9"
"""Where it asks from: another client than the attacker, which is at 127.0.0.1."""
STATE = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
_PAUSE_SECONDS = 0.005


def ask_rest(port: int, ended: threading.Event) -> tuple[list[float], list[str]]:
    """Seconds of each answer, and what went wrong."""
    body = json.dumps({"state": STATE})
    headers = {"content-type": "application/json"}
    took: list[float] = []
    wrong: list[str] = []
    connection: http.client.HTTPConnection | None = None
    _say("asking")
    while not ended.wait(_PAUSE_SECONDS):
        begin = time.perf_counter()
        try:
            if connection is None:
                connection = http.client.HTTPConnection("127.0.0.1", port, 20, source_address=(ADDRESS, 0))
            connection.request("POST", "/predict", body, headers)
            answer = connection.getresponse()
            said = answer.read()
            if answer.status != 200:
                wrong.append(f"{answer.status} {said[:100]!r}")
        except (OSError, http.client.HTTPException) as error:
            wrong.append(repr(error))
            connection = None
        took.append(time.perf_counter() - begin)
    return took, wrong


def ask_grpc(port: int, ended: threading.Event) -> tuple[list[float], list[str]]:
    """The same over gRPC."""
    import grpc

    from proreus.serving.protos import scheduler_pb2

    data = scheduler_pb2.StateRequest(state=STATE).SerializeToString()
    took: list[float] = []
    wrong: list[str] = []
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        predict = channel.unary_unary("/scheduler.Scheduler/Predict")
        predict(data, timeout=20)
        _say("asking")
        while not ended.wait(_PAUSE_SECONDS):
            begin = time.perf_counter()
            try:
                predict(data, timeout=20)
            except grpc.RpcError as error:
                wrong.append(str(error)[:200])
            took.append(time.perf_counter() - begin)
    return took, wrong


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    door, port = sys.argv[1], int(sys.argv[2])
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    took, wrong = (ask_grpc if door == "grpc" else ask_rest)(port, ended)
    took.sort()
    figures = {
        "answers": len(took),
        "p50": took[len(took) // 2],
        "p99": took[min(len(took) - 1, int(len(took) * 0.99))],
        "worst": took[-1],
        "wrong": wrong[:5],
        "wrongs": len(wrong),
    }
    _say(json.dumps(figures))


if __name__ == "__main__":
    main()
