"""`SchedEnv`: Gymnasium's rules, the names of the notes, built-in rules, learners that take it as it is."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="needs the extra `learn`")

import gymnasium
from gymnasium.utils.env_checker import check_env

from proreus.api import make_scenario
from proreus.envs import VIRTUAL_MACHINES
from proreus.model.errors import IllegalDecision, InputError, UsageError
from proreus.worlds.vms.datasets.generator import generate_vms
from proreus.worlds.vms.encoding.rows import encode_servers
from proreus.worlds.vms.env import SchedEnv
from proreus.worlds.vms.model import VmTrace
from proreus.worlds.vms.play import play_runs
from proreus.worlds.vms.policies.catalogue import make_vm_policy
from proreus.worlds.vms.simulation.runs import planned_runs
from proreus.worlds.vms.simulation.world import SCENARIOS

TRACE = generate_vms(2_000, 1)


def episode(env: SchedEnv, action: int, **reset: Any) -> tuple[float, dict[str, Any]]:
    """(return, last info) of an episode that asks for the same built-in rule at every step."""
    _, info = env.reset(**reset)
    total, done = 0.0, False
    while not done:
        _, reward, done, truncated, info = env.step(action)
        assert not truncated
        total += reward
    return total, info


@pytest.mark.filterwarnings("ignore:.*not within the observation space.*:UserWarning")
@pytest.mark.parametrize("scenario", sorted(set(SCENARIOS) - {"recovering-large"}))
def test_gymnasium_finds_nothing_to_complain_about(scenario: str) -> None:
    env = gymnasium.make(VIRTUAL_MACHINES, scenario=scenario, trace=TRACE, servers=3, illegal="first_fit")
    check_env(env.unwrapped)


def test_observations_are_those_of_the_notes() -> None:
    env = SchedEnv("recovering", trace=TRACE)
    # One that is still there when the next one comes.
    start = int(np.flatnonzero(TRACE.lifetime[:-1] > np.diff(TRACE.arrival))[20])
    observation, info = env.reset(start)
    assert observation["obs"].shape == (5, 2, 2) and (observation["obs"] == [40.0, 90.0]).all()
    assert observation["feat"].shape == (2, 2, 2) and observation["avail"].shape == (10,)
    assert env.avail.reshape(env.N, 2).all() and info["action_mask"].all()
    for name in ("obs", "req", "feat", "avail"):
        assert np.array_equal(env.get_attr(name), getattr(env, name))
    with pytest.raises(UsageError, match="unknown attribute 'avial'"):
        env.get_attr("avial")
    cpu, mem = TRACE.cpu[start], TRACE.mem[start]
    if mem > 10:
        assert env.req.tolist() == [[[cpu / 2, mem / 2]] * 2] * 2
    else:
        assert env.req.tolist() == [[[cpu, mem], [0, 0]], [[0, 0], [cpu, mem]]]
    after, reward, done, _, _ = env.step(3)
    assert reward == 1.0 and not done
    expected = observation["obs"].copy()
    expected[1] -= observation["feat"][1]
    assert np.array_equal(after["obs"], expected)
    assert np.array_equal(observation["obs"], np.broadcast_to([40.0, 90.0], (5, 2, 2)).astype(np.float32))


def test_rows_are_those_that_the_packages_own_learners_see() -> None:
    env, arrays = SchedEnv("recovering", trace=TRACE, encoding="rows"), SchedEnv("recovering", trace=TRACE)
    seen, _ = env.reset(20)
    shown, _ = arrays.reset(20)
    for _ in range(30):
        choice = encode_servers(shown["obs"][None], shown["feat"][None], shown["avail"][None], (40.0, 90.0))
        for name, array in zip(("rows", "context", "action_mask"), choice, strict=True):
            np.testing.assert_array_equal(seen[name], array[0])
        assert env.observation_space.contains(seen)
        (seen, *_), (shown, *_) = env.step(-2), arrays.step(-2)
    check_env(SchedEnv("expansion", trace=TRACE, servers=2, encoding="rows"), skip_render_check=True)
    with pytest.raises(UsageError, match="servers of several kinds"):
        SchedEnv(trace=TRACE, shapes="1x40/90+2x64/256", encoding="rows")


def test_the_built_in_rules_are_first_fit_and_true_best_fit() -> None:
    env = SchedEnv("recovering", trace=TRACE, servers=2)
    runs = planned_runs(env.world.work, env.options, np.array([40, 700]))
    for action, name in ((-1, "first_fit"), (-2, "best_fit")):
        figures, _ = play_runs(runs, make_vm_policy(name))
        for start, run in zip((40, 700), figures, strict=True):
            total, info = episode(env, action, options={"start": start})
            assert total == run.placed == info["placed"] and info["full"] == run.full


def test_rows_of_events_start_at_the_next_creation() -> None:
    env = SchedEnv("recovering", trace=TRACE, rows="events")
    row = int(np.flatnonzero(TRACE.events < 0)[5])
    machine = int(TRACE.events[row:][np.argmax(TRACE.events[row:] >= 0)])
    env.reset(row)
    assert env.world.start == machine
    with pytest.raises(UsageError, match="event rows 0 to"):
        env.reset(TRACE.events.size)
    with pytest.raises(UsageError, match="no machine is created from there on"):
        env.reset(TRACE.events.size - 1)
    with pytest.raises(UsageError, match="the trace has the machines 0 to 1999"):
        SchedEnv("recovering", trace=TRACE).reset(2_000)


def test_a_seed_decides_the_starts_and_nothing_else_does() -> None:
    def starts(seed: int) -> list[int]:
        env = SchedEnv("recovering", trace=TRACE)
        env.reset(seed=seed)
        rows = [env.world.start]
        for _ in range(3):
            env.step(-1)
            env.reset()
            rows.append(env.world.start)
        return rows

    assert starts(3) == starts(3) != starts(4)
    assert max(starts(3)) < 2_000 * 50_000 // 110_000  # the training part
    first = SchedEnv("recovering", trace=TRACE, seed=3)
    first.reset()
    assert first.world.start == starts(3)[0]


@pytest.mark.parametrize(("part", "border"), [("train", 909), ("valid", 1272), ("test", 2000)])
def test_episodes_end_where_their_part_ends(part: Any, border: int) -> None:
    env = SchedEnv("recovering-large", trace=TRACE, part=part, seed=5)
    for _ in range(3):
        _, info = episode(env, -1)
        assert env.world.start + info["placed"] == border and not info["full"]
    beyond = SchedEnv("recovering-large", trace=TRACE, part="train")
    assert episode(beyond, -1, start=1000)[1]["placed"] == 272, "ends with the part in which it starts"
    assert episode(SchedEnv("recovering", trace=TRACE, limit=5), -1, start=907)[1]["placed"] == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"limit": -1}, "limit: -1"),
        ({"limit": 2.5}, "limit: 2.5"),
        ({"servers": 0}, "servers: 0"),
        ({"servers": 2.5}, "servers: 2.5"),
        ({"servers": True}, "servers: True"),
        ({"server": 3}, "unknown setting 'server'; did you mean 'servers'"),
        ({"shapes": 3}, "shapes: 3"),
        ({"allow_release": "no"}, "allow_release: 'no'"),
        ({"part": "all"}, "unknown part 'all'"),
        ({"encoding": "row"}, "unknown encoding 'row'; did you mean 'rows'"),
    ],
)
def test_a_wrong_setting_is_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        SchedEnv(trace=TRACE, **settings)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"strt": 3}, "unknown option of reset 'strt'; did you mean 'start'"),
        ({"start": "x"}, "start: 'x'"),
        ({"start": 2.5}, "start: 2.5"),
        ({"start": -1}, "start: -1"),
    ],
)
def test_a_wrong_option_of_reset_is_named(options: dict[str, Any], message: str) -> None:
    env = SchedEnv(trace=TRACE)
    with pytest.raises(UsageError, match=message):
        env.reset(options=options)
    env.reset(options={"start": np.int64(3)})
    assert env.world.start == 3


def test_illegal_actions_raise_or_count_as_first_fit() -> None:
    strict = SchedEnv("recovering", trace=TRACE, servers=1, illegal="raise")
    strict.reset(0)
    for action in (2, -3, 99):
        with pytest.raises(IllegalDecision):
            strict.step(action)
    mild = SchedEnv("recovering", trace=TRACE, servers=1)
    mild.reset(0)
    _, _, _, _, info = mild.step(99)
    assert info["illegal"] and info["action"] == 0
    with pytest.raises(UsageError, match="reset the environment"):
        SchedEnv("recovering", trace=TRACE).step(0)


def test_rewards_can_be_chosen() -> None:
    placed, _ = episode(SchedEnv("recovering", trace=TRACE, servers=2), -1, start=10)
    cores, _ = episode(SchedEnv("recovering", trace=TRACE, servers=2, reward="cpu"), -1, start=10)
    first = int(placed)
    assert cores == pytest.approx(TRACE.cpu[10 : 10 + first].sum() / 40.0)
    waited, info = episode(SchedEnv("waiting", trace=TRACE, servers=2), -1, start=10)
    assert (waited < 0) == (info["total_wait"] > 0)


def test_release_mixed_servers_and_the_double_rule_are_options() -> None:
    kept, _ = episode(SchedEnv("recovering", trace=TRACE, allow_release=False), -1, start=0)
    released, _ = episode(SchedEnv("recovering", trace=TRACE), -1, start=0)
    assert released > kept
    mixed = SchedEnv("recovering", trace=TRACE, shapes="1x40/90+2x64/256")
    observation, _ = mixed.reset(0)
    assert observation["obs"][:, 0].tolist() == [[40, 90], [64, 256], [64, 256]]
    never = SchedEnv("recovering", trace=TRACE, double="mem>1000")
    never.reset(int(np.flatnonzero(TRACE.mem > 10)[0]))
    assert not never.req[0, 1].any()
    for wrong in ({"scenario": "recoverin"}, {"double": "mem"}, {"illegal": "ignore"}, {"shapes": "2"}):
        with pytest.raises(UsageError):
            SchedEnv(trace=TRACE, **wrong)  # type: ignore[arg-type]


def test_a_growing_cluster_has_room_in_its_spaces() -> None:
    env = SchedEnv("expansion", trace=TRACE, servers=2)
    observation, _ = env.reset(0)
    assert env.N == 4 and observation["obs"].shape == (4, 2, 2)
    assert not observation["obs"][2:].any() and not observation["avail"][4:].any()
    episode(env, -1, start=0)
    assert env.world.figures().servers == 4


def test_render_draws_the_servers() -> None:
    env = SchedEnv("recovering", trace=TRACE, render_mode="ansi")
    env.reset(0)
    env.step(5)
    drawn = env.render()
    assert drawn is not None and "1 placed" in drawn and "next asks for" in drawn
    lines = drawn.splitlines()
    assert len(lines) == 6 and lines[3].count("→") == 1 and lines[3].startswith("   2 ")
    assert SchedEnv("recovering", trace=TRACE).render() is None


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Small networks are fastest on one thread."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("one_thread")
def test_stable_baselines_learns_on_it() -> None:
    pytest.importorskip("sb3_contrib", reason="needs the extra sb3")
    from sb3_contrib import MaskablePPO
    from stable_baselines3 import DQN

    from proreus.envs.sb3 import make_sb3_env

    def tiny(**settings: Any) -> Any:
        small: VmTrace = TRACE
        return make_sb3_env(VIRTUAL_MACHINES, trace=small, servers=2, max_steps=40, **settings)

    masked = MaskablePPO("MlpPolicy", tiny(count=2), n_steps=32, batch_size=32, n_epochs=1, seed=0)
    before = [weights.clone() for weights in masked.policy.parameters()]
    masked.learn(128)
    assert any((old != new).any() for old, new in zip(before, masked.policy.parameters(), strict=True))
    free = DQN("MlpPolicy", tiny(illegal="first_fit"), learning_starts=20, buffer_size=500, seed=0)
    free.learn(100)


def test_scenarios_of_the_command_line_and_of_python_are_taken(tmp_path: Path) -> None:
    named, made = SchedEnv("recovering@3"), SchedEnv(cast(Any, make_scenario("vms", "recovering@3")))
    assert named.N == made.N == 3
    with pytest.raises(InputError, match=r"Huawei-East-1-lt\.csv: no such file"):
        SchedEnv("huawei/recovering", data=tmp_path)
