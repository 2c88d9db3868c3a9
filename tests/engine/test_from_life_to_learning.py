"""The loop closes: a day is recorded, a policy learns from it, is promoted and better; a worse one never."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cmaes", reason="training needs the extra `learn`")

from proreus.cli.main import main as proreus
from proreus.engine.controllers.promotion.core import shorter_waits
from tests.engine.controllers.virtual_time import play
from tests.engine.days import days, replayed, train, waits_of

PODS, SECONDS = 300, 820.0


def test_a_policy_learns_from_a_day_is_promoted_and_does_better(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, run = tmp_path / "day.db", tmp_path / "run"

    async def main() -> None:
        async with days(PODS, SECONDS, tmp_path) as living:
            # A day under kube is recorded, and replayed by the command line.
            await living.live()
            await living.keep(store)
            words = ("simulate", "pods", "--format", "engine", "--from", str(store), "--until", "2100-01-01")
            assert proreus([*words, "--policy", "best_fit", "--json", str(tmp_path / "out.json")]) == 0
            assert f"{PODS} pods on 6 nodes" in capsys.readouterr().out.replace("\n", " ")

            # A policy is trained on it, and put up.
            better = str(train(store, run))
            await living.put_up("kube", better)
            stages = ["shadow"]
            while stages[-1] in ("shadow", "share") and len(stages) < 20:
                await living.live(0.2)
                promotion = await living.promotion()
                assert promotion is not None
                stages.append(promotion.stage)
            assert list(dict.fromkeys(stages)) == ["shadow", "share", "all"], promotion

            # The next day is its own, and better than by kube with the same pods: in life, and replayed with
            # an interval. Two days are not alike, so this one is not held against the first.
            own = await living.live(0.5)
            trace = await living.trace()
            after, duel = waits_of(trace, *own), replayed(trace, "kube", better, own)
            assert sum(after) / len(after) < sum(by_kube for by_kube, _ in duel.waits) / len(duel.waits)
            assert {pod.policy for pod in trace.pods if own[0] <= pod.created < own[1] and pod.bound} == {
                better
            }
            assert shorter_waits(duel).low > 0.0

            # A worse one is put up after it: refused by what would have been, and no pod was ever its own.
            await living.put_up(better, "worst_fit")
            stages = ["shadow"]
            while stages[-1] == "shadow" and len(stages) < 10:
                await living.live(0.2)
                promotion = await living.promotion()
                assert promotion is not None
                stages.append(promotion.stage)
            assert promotion is not None
            assert promotion.stage == "refused", promotion
            assert promotion.told.startswith("worse: ")
            trace = await living.trace()
            assert not [pod for pod in trace.pods if pod.policy == "worst_fit"]

    play(main())
