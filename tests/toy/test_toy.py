"""The toy world has every verb, an environment and what learners need; no line of the package names it."""

from __future__ import annotations

import json
from pathlib import Path

import gymnasium
import numpy as np
import pytest

from proreus.api import load_policy, scenarios, simulate, worlds
from proreus.contract.play import step_by_step
from proreus.envs.lanes import LanesEnv
from proreus.model.errors import IllegalDecision, UsageError
from proreus.policies.checkpoint import Card, Checkpoint, save_checkpoint
from tests.cli.runner import Proreus
from tests.toy.model import VERSION
from tests.toy.policies import POLICIES
from tests.toy.scenarios import PRESETS
from tests.toy.training import ToyGoal, episodes, lanes


def test_it_is_a_world_among_the_others(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "data" / "toy").mkdir(parents=True)
    (tmp_path / "data" / "toy" / "jobs.csv").write_text("0.0,1.0\n0.1,2.0\n0.2,0.5\n")
    assert worlds()["toy"].startswith("jobs for two servers")
    assert scenarios("toy", "data") == ("calm", "busy", "jobs")
    listed = proreus("data", "list", "--data", "data")
    assert listed.code == 0 and "recorded jobs" in listed.out and "yes" in listed.out
    benched = proreus("bench", "toy", "--json", "bench.json")
    assert benched.code == 0, benched.err
    assert json.loads(Path("bench.json").read_text())["rows"][0]["ok"]
    played = proreus(
        "simulate", "toy", "--scenario", "jobs", "--data", "data", "--log", "log.csv", "--explain", "1"
    )
    assert played.code == 0 and "1 goes to fast server" in played.out, played
    assert Path("log.csv").read_text().splitlines()[1:3] == ["0,0.0,0.0,0,1.0", "1,0.1,0.1,0,3.0"]


def test_rules_are_told_apart_by_what_they_do() -> None:
    times = {name: simulate("toy", "busy", name).measures["time_in_system"] for name in POLICIES.rules}
    assert times["shortest"] < times["fast"] < times["random"]


def test_every_job_is_done_and_servers_work_one_after_the_other() -> None:
    for name in POLICIES.names:
        rows = simulate("toy", "busy", name, seed=2).log
        assert sorted(row["job"] for row in rows) == list(range(60))
        for server in (0, 1):
            done = [row["done"] for row in rows if row["server"] == server]
            assert done == sorted(done) and all(row["arrival"] <= row["sent"] < row["done"] for row in rows)


def test_an_environment_is_its_lane() -> None:
    env, lane = gymnasium.make("proreus/Toy-v0", scenario="busy").unwrapped, episodes("busy")
    assert isinstance(env, LanesEnv)
    (seen, info), choices = env.reset(seed=5), lane.reset(5)
    draw, ends = np.random.default_rng(0), 0
    for _ in range(400):
        np.testing.assert_array_equal(seen["rows"], choices.rows[0])
        np.testing.assert_array_equal(seen["context"], choices.context[0])
        np.testing.assert_array_equal(info["action_mask"], choices.legal[0])
        action = int(draw.choice(np.flatnonzero(choices.legal[0])))
        seen, reward, over, truncated, info = env.step(action)
        choices, rewards, ended, own, _ = lane.step(np.array([action]))
        assert (reward, over, truncated, info["own"]) == (rewards[0], ended[0], False, own[0])
        if over:
            ends += 1
            assert not seen["rows"].any() and env.action_masks().all()
            with pytest.raises(UsageError, match="reset"):
                env.step(0)
            seen, info = env.reset()
    assert ends > 1


def test_an_illegal_action_raises_or_counts_as_the_first_legal_one() -> None:
    strict, lenient = LanesEnv(episodes(), illegal="raise"), LanesEnv(episodes())
    for env in (strict, lenient):
        env.reset(seed=1)
    with pytest.raises(IllegalDecision, match="masked"):
        strict.step(7)
    assert lenient.step(7)[4]["illegal"] and not strict.step(0)[4]["illegal"]


def test_settings_of_an_environment_that_mean_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="unknown setting 'scenarios'"):
        gymnasium.make("proreus/Toy-v0", scenarios="busy")
    with pytest.raises(UsageError, match="one lane, not 2"):
        LanesEnv(lanes(PRESETS["calm"], 2))
    with pytest.raises(UsageError, match="unknown illegal"):
        LanesEnv(episodes(), illegal="delay")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="unknown render_mode"):
        LanesEnv(episodes(), render_mode="text")


def test_an_episode_that_is_broken_off_is_followed_by_another() -> None:
    first, again = LanesEnv(episodes(), seed=3), LanesEnv(episodes(), seed=3)
    for env in (first, again):
        env.reset()
        env.step(0)
    (one, _), (two, _) = first.reset(), again.reset()
    np.testing.assert_array_equal(one["context"], two["context"])


def test_lanes_are_runs_of_the_world_and_begin_anew() -> None:
    scenario, side_by_side = PRESETS["calm"], lanes(PRESETS["calm"], 3)
    choices, worth, episodes_ended = side_by_side.reset(1), np.zeros(3), 0
    while episodes_ended < 3:
        choices, rewards, ended, own, _ = side_by_side.step(choices.legal.argmax(axis=1))
        worth += own
        np.testing.assert_array_equal(rewards, own)
        episodes_ended += int(ended.sum())
    assert (worth < 0).all() and len({row.tobytes() for row in choices.rows}) == 3
    drawn = int(np.random.default_rng([1, 0, 0]).integers(1_000_000, size=100)[0])
    training, alone = scenario.of_part("train"), lanes(scenario, 1)
    fast = step_by_step(training, training.load(drawn), POLICIES.make("fast"), drawn).measures
    choices, total, over = alone.reset(1), 0.0, False
    while not over:
        choices, rewards, ended, *_ = alone.step(choices.legal.argmax(axis=1))
        total, over = total + float(rewards[0]), bool(ended[0])
    assert -total / scenario.jobs == pytest.approx(fast["time_in_system"])


def test_an_illegal_step_changes_no_lane() -> None:
    side_by_side = lanes(PRESETS["calm"], 2)
    side_by_side.reset(0)
    before = side_by_side.capture()
    with pytest.raises(IllegalDecision, match="lane 1"):
        side_by_side.step(np.array([0, 9]))
    after = side_by_side.capture()
    assert all(np.array_equal(before[name], after[name]) for name in before)


def test_the_goal_starts_from_the_rule_to_beat_and_what_it_finds_plays(tmp_path: Path) -> None:
    goal = ToyGoal(tuple(PRESETS.values()), runs=2)
    assert max(goal.validate(goal.start).values()) <= 0.0
    drawn = goal.draw(np.random.default_rng(0))
    worse = goal.start.copy()
    worse[4] = 5.0  # would rather wait
    fitness, counted = goal.fitness([goal.start, worse], drawn)
    assert fitness == goal.fitness([goal.start, worse], drawn)[0] and fitness[0] > fitness[1]
    assert counted == {"runs": 8}
    card = Card("toy", "linear", "es", VERSION)
    save_checkpoint(tmp_path / "best", Checkpoint(card, goal.tensors(goal.start)))
    learned = simulate("toy", "calm", load_policy(tmp_path)).measures["time_in_system"]
    assert learned == simulate("toy", "calm", "shortest").measures["time_in_system"]
