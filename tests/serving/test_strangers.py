"""`proreus serve` with a policy from elsewhere that goes wrong: answers come, and it ends when told to."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.runner import command, environment
from tests.serving.door_cases import ask, fresh_checkpoint
from tests.serving.service_process import ServiceProcess
from tests.strangers import asking_beside, children, write_strangers

WORDS = ("--state_dim", "6", "--action_dim", "8", "--no-learn", "--store", "store", "--model", "fresh/")
DRAIN = 3.0
QUICK_SECONDS = 2.0
"""On a machine that does much else; what the policy holds up would be held up for ever."""
NODES = [{"name": f"n{k}", "allocatable": {"cpu": "4", "memory": "8Gi", "pods": 110}} for k in range(3)]
STATE = {"state": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]}


@pytest.mark.parametrize(
    ("policy", "reasons"),
    [("Spins", {"deadline"}), ("HoldsTheLock", {"deadline"}), ("Dies", {"error"}), ("Exits", {"error"})],
)
def test_answers_come_and_it_ends(policy: str, reasons: set[str], tmp_path: Path) -> None:
    fresh_checkpoint(tmp_path / "fresh")
    path = write_strangers(tmp_path)
    words = ("--policy", f"{path}:{policy}", "--deadline-ms", "3000", "--drain-seconds", f"{DRAIN:g}")
    service = ServiceProcess(tmp_path, "rest", *WORDS, *words)
    try:
        begun = ask(service.rest, "/v1/decide", {"pod": {"name": "p"}, "nodes": NODES, "keep": True}).json
        session = {key: begun[key] for key in ("session", "generation")}
        decided_by = [begun["decided_by"]]
        with asking_beside(lambda: _predicted(service.rest)) as took:
            for number in range(6):
                reply = ask(service.rest, "/v1/decide", {"pod": {"name": f"p{number}"}, **session})
                assert (reply.status, reply.json["decision"]) == (200, "place"), reply.body
                decided_by.append(reply.json["decided_by"])
        assert decided_by == ["policy"] * 4 + ["rule"] * 3
        assert took and max(took) < QUICK_SECONDS, max(took)
        health = ask(service.rest, "/health").json
        assert health["status"] == "degraded" and policy in health["trouble"], health
        exposition = ask(service.rest, "/metrics").body.decode()
        for reason in reasons:
            assert f'proreus_fallbacks_total{{reason="{reason}"}}' in exposition
        began = time.monotonic()
        assert service.end() == 0
        assert time.monotonic() - began < DRAIN + 5.0
    finally:
        service.kill()
    assert "Traceback" not in (tmp_path / "stderr.txt").read_text()


def _predicted(port: int) -> None:
    assert ask(port, "/predict", STATE).status == 200


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for children in /proc")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_while_a_policy_is_being_imported_and_leaves_nobody(number: int, tmp_path: Path) -> None:
    fresh_checkpoint(tmp_path / "fresh")
    write_strangers(tmp_path)
    words = ("--policy", f"{tmp_path / 'hangs.py'}:Hangs")
    process = subprocess.Popen(
        command("serve", "rest", "--port", "0", *WORDS, *words),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        until = time.monotonic() + 120.0
        while not (importing := children(process.pid)) and time.monotonic() < until:
            time.sleep(0.05)
        assert importing
        time.sleep(1.0)
        process.send_signal(number)
        _, said = process.communicate(timeout=20.0)
        assert process.returncode == 0 and b"Traceback" not in said
    finally:
        process.kill()
        process.communicate()
    time.sleep(0.5)
    assert not [child for child in importing if _alive(child)]


def _alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
