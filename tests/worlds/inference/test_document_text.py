"""The code, YAML and log lines of the document on scaling by learning, run as they stand there."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import pytest

from proreus.model.errors import UsageError
from proreus.worlds.inference.document import (
    RLActionExecutor,
    RLStateCollector,
    TraceRLSimulator,
    applications_of,
)
from proreus.worlds.inference.document.baselines import RuleAgent
from proreus.worlds.inference.flags import InferenceFlags
from proreus.worlds.inference.policies.catalogue import POLICIES
from proreus.worlds.inference.policies.rules.controller import Controller
from tests.worlds.inference.clusters import requests
from tests.worlds.inference.sights import brief
from tests.worlds.inference.test_document import STEP, served

SCALE_UP = """
instance_cfg = self._get_instance_config(tag)
parallelism = self._get_parallelism(tag)

server, instance = self.scaling_manager.scale_up_full(
    instance_cfg=instance_cfg,
    parallelism=parallelism,
    tag=tag,
    server_sku=None  # 使用默认 SKU
)
"""
SCALE_DOWN = """
if tag == "prompt":
    least_loaded = min(active_instances, key=lambda i: i.sched_pending_tokens)
else:  # token
    least_loaded = min(active_instances, key=lambda i: i.sched_memory)

# 使用全流程缩容：自动排空实例 + 移除服务器
self.scaling_manager.scale_down_full(least_loaded)
"""
CONFIGURATION = """
if hasattr(self.application, 'start_state_manager'):
    instance_cfg = self.application.start_state_manager.get_instance_config(tag)
    parallelism = self.application.start_state_manager.get_parallelism(tag)
"""
ACTIVE = """
if hasattr(self.applications[0], 'scaling_manager'):
    active_instances = self.applications[0].scaling_manager.get_active_instances(
        scheduler.instances
    )
else:
    active_instances = scheduler.instances
"""
YAML = """
applications:
  - application_id: 0
    scaling_manager:
      scale_up_delay: 10.0
      drain_check_interval: 1.0
"""
RL_CONFIG = """
rl_config = {
    "action_scale_step": 5,        # 扩缩容步长
    "min_instances_per_pool": 1,   # 最小实例数
    "max_total_instances": 100,    # 最大总实例数
    # ... 其他参数 ...
}
"""
RUN = """
sim = TraceRLSimulator(
    trace=trace,
    cluster=cluster,
    applications=applications,
    router=router,
    arbiter=arbiter,
    end_time=end_time
)
sim.run()
"""
UNIT_TEST = """
executor = RLActionExecutor(application, config)

# 模拟扩容动作
action = [0.5, 0.0, 0.0]  # 扩容 prompt
executor.execute(action)

# 验证实例创建
assert len(scheduler.prompt_instances) > initial_count
"""
INTEGRATION_TEST = """
sim.run()

# 验证决策执行
assert sim.decision_step > 0
assert len(sim.agent.buffer.rewards) > 0
"""
SUMMARY = """
# 获取扩缩容状态摘要
summary = scaling_manager.get_status_summary()
"""
SUMMARY_KEYS = [
    "active_instances",
    "scaling_up_instances",
    "draining_instances",
    "total_servers",
    "total_instances",
]
LINES = """
[Action] Added prompt instance 5 on server 10
[Action] Removed token instance 3
[Action Blocked] Max cluster size reached (100)
[Action Blocked] Cannot remove prompt, min limit reached
[ScalingManager] Full scale-up: server 10 + instance 5
[ScalingManager] Instance 5 scaled up at 120.50
[ScalingManager] Instance 3 draining started at 250.00
[ScalingManager] Auto scale-down server 8 after instance removal
"""


def run(text: str, **names: Any) -> dict[str, Any]:
    """What the text leaves behind."""
    exec(compile(text, "the document", "exec"), names)
    return names


class Names:
    """Some object with attributes, as the document's `self`."""

    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)


def test_scaling_up_as_written_and_at_the_limit() -> None:
    application, lines = served()
    executor = RLActionExecutor(application, {"max_total_instances": 7})
    left = run(SCALE_UP, self=executor, tag="prompt")
    assert left["instance"].tag == "prompt" and left["server"].server_id == left["instance"].instance_id
    assert (left["instance_cfg"], left["parallelism"]) == ("one", 1)
    left = run(SCALE_UP, self=executor, tag="token")
    assert left["server"] is None and left["instance"] is None
    assert lines[-1] == "[Action Blocked] Max cluster size reached (7)"


@pytest.mark.parametrize("tag", ["prompt", "token"])
def test_scaling_down_as_written(tag: str) -> None:
    application, _ = served()
    application.cluster.advance(20.0)
    active = list(application.active(tag))  # type: ignore[arg-type]
    left = run(SCALE_DOWN, self=application, tag=tag, active_instances=active)
    assert left["least_loaded"] not in application.active(tag)  # type: ignore[arg-type]


def test_the_configuration_of_an_instance_as_written() -> None:
    application, _ = served()
    executor = RLActionExecutor(application, {"max_total_instances": 12})
    left = run(CONFIGURATION, self=executor, tag="token")
    assert left["instance_cfg"] == executor._get_instance_config("token")
    assert left["parallelism"] == executor._get_parallelism("token")


def test_what_scale_up_full_is_asked_for_is_honoured_or_refused_by_name() -> None:
    manager = served()[0].scaling_manager
    described = {"name": "one", "instance_type": "chunked", "parallelism": {"tensor_parallelism": 1}}
    _, instance = manager.scale_up_full(described, tag="token")
    assert instance is not None and instance.tag == "token"
    for asked, message in (
        ({"instance_cfg": "one", "parallelism": 8}, "parallelism: no kind of instance has 8"),
        ({"instance_cfg": "one", "server_sku": "tpu"}, "server_sku: no kind of instance has 'tpu'"),
        ({"instance_cfg": {"instance_type": "orca"}}, "instance_type: no kind of instance has 'orca'"),
        ({"instance_cfg": {"size": 3}}, "unknown field of instance_cfg"),
        ({"instance_cfg": {"parallelism": 1}, "parallelism": 2}, "parallelism: 2 is not the 1"),
        ({"parallelism": {"pipeline_parallelism": 2}}, "pipelines"),
    ):
        with pytest.raises(UsageError, match=message):
            manager.scale_up_full(tag="token", **asked)


def test_active_instances_as_written() -> None:
    application, _ = served()
    executor = RLActionExecutor(application, {"max_total_instances": 12})
    executor.execute([0.2, -0.2, 0.0])
    collector = Names(applications=[application])
    left = run(ACTIVE, self=collector, scheduler=application.scheduler)
    assert len(left["active_instances"]) == 5 < len(application.scheduler.instances)


def test_utilisation_has_the_names_of_the_document() -> None:
    application, _ = served()
    collector = RLStateCollector([application])
    assert collector.get_avg_utilization() == 0.0
    application.cluster.advance(10.0)
    collector.get_state()
    prompt, token = collector.compute_util("prompt"), collector.compute_util("token")
    assert 0.0 < prompt <= 1.0 and 0.0 < token <= 1.0
    assert collector.get_avg_utilization() == pytest.approx((prompt + token) / 2)


DEFAULTS = [
    YAML,
    "applications:\n  - application_id: 0\n",
    "applications:\n  - application_id: 0\n    scaling_manager: {}\n",
    "applications:\n  - application_id: 0\nscaling_manager: {scale_up_delay: 10, drain_check_interval: 1}\n",
]


@pytest.mark.parametrize("text", DEFAULTS)
def test_the_defaults_of_the_document_hold(text: str, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(text)
    scenario = InferenceFlags(cluster=tmp_path / "cluster.yaml", seconds=60.0).chosen("steady")
    spec, control = scenario.machines.spec(), scenario.control
    assert spec.drain_check_seconds == 1.0 and control.limits.most_in_total == 100
    assert all(control.start.seconds(kind) == pytest.approx(10.0) for kind in spec.kinds)


def test_what_both_places_say_rl_config_has_the_last_word_on(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(YAML + "rl: {max_total_instances: 9, action_scale_step: 2}\n")
    scenario = InferenceFlags(cluster=tmp_path / "cluster.yaml", seconds=60.0).chosen("steady")

    def executor(config: Any) -> RLActionExecutor:
        _, applications = applications_of(scenario, scenario.load(0))
        return RLActionExecutor(applications[0], config)

    said = executor({"action_mig_step": 1}).config
    assert (said.max_total_instances, said.action_scale_step, said.action_mig_step) == (9, 2, 1)
    written = run(RL_CONFIG)["rl_config"]
    last = executor({**written, "scale_up_delay": 30.0, "drain_check_interval": 5.0})
    assert (last.config.max_total_instances, last.config.action_scale_step) == (100, 5)
    assert last.scaling_manager.limits.most_in_total == 100
    assert last.scaling_manager.start.provision_seconds == 30.0
    assert last.application.cluster.spec.drain_check_seconds == 5.0
    for _ in range(20):
        last.execute([1.0, 1.0, 0.0])
    assert last.scaling_manager.total() == 100
    with pytest.raises(UsageError, match="max_total_instances: 200 is above the 100"):
        executor({"max_total_instances": 200})


@pytest.mark.parametrize(
    ("router", "arbiter"),
    [
        ("no_op", "no_op"),
        (None, None),
        ("kv_jsq", "predictive"),
        ("kv_token_jsq", "static"),
        ("mixed_pool", "wva"),
    ],
)
def test_the_loop_as_written(router: str | None, arbiter: str | None) -> None:
    trace = requests(2, 100, rate=4.0)
    application, _ = served(trace)
    names = {"trace": trace, "cluster": application.cluster, "applications": {0: application}}
    left = run(RUN, TraceRLSimulator=TraceRLSimulator, router=router, arbiter=arbiter, end_time=40.0, **names)
    run(INTEGRATION_TEST, sim=left["sim"].twin())
    assert left["sim"].decision_step == 4
    assert application.cluster.spec.scheduler == ("mixed_pool" if router in (None, "no_op") else router)
    run_by = left["sim"].arbiter().name
    assert run_by == ("chiron" if arbiter in (None, "no_op") else arbiter)


def test_routers_and_arbiters_that_are_none_are_refused_by_name() -> None:
    application, _ = served()
    names = (application.cluster.trace, application.cluster, {0: application})
    for router, arbiter, message in (
        ("smart", None, "unknown router 'smart'"),
        ("jsq", None, "router: jsq is of one pool, and the cluster is not"),
        (None, "wise", "unknown arbiter 'wise'"),
    ):
        with pytest.raises(UsageError, match=message):
            TraceRLSimulator(*names, router=router, arbiter=arbiter, end_time=40.0)


def test_the_unit_test_of_the_document() -> None:
    application, _ = served()
    initial = len(application.scheduler.prompt_instances)
    run(
        UNIT_TEST,
        RLActionExecutor=RLActionExecutor,
        application=application,
        config={"max_total_instances": 12},
        scheduler=application.scheduler,
        initial_count=initial,
    )


def test_the_lines_of_the_document_go_to_logging(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="proreus.worlds.inference")
    application, _ = served()
    executor = RLActionExecutor(application, {"max_total_instances": 8, "min_instances_per_pool": 2})
    executor.execute([1.0, -0.2, 0.0])
    application.cluster.advance(STEP + 1.0)
    application.scaling_manager.notice()
    executor.execute([-1.0, 0.0, 0.0])
    application.cluster.advance()
    application.scaling_manager.notice()
    said = "\n".join(record.getMessage() for record in caplog.records)
    for line in LINES.strip().splitlines():
        number = re.sub(r"\d+(\\\.\d+)?", r"[\\d.]+", re.escape(line))
        assert re.search(number.replace("token", "(token|prompt)"), said), line
    left = run(SUMMARY, scaling_manager=application.scaling_manager)
    assert list(left["summary"]) == SUMMARY_KEYS


def test_every_hundredth_step_goes_to_logging(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="proreus.worlds.inference.document")
    application, _ = served(requests(1, 20, rate=4.0))
    rule = POLICIES.make("static")
    assert isinstance(rule, Controller)
    sim = TraceRLSimulator(
        application.cluster.trace,
        application.cluster,
        {0: application},
        end_time=200.0,
        rl_config={"decision_interval": 1.0},
        agent=RuleAgent(rule),
    )
    sim.run()
    assert [record.getMessage().split(" | ")[0] for record in caplog.records] == ["Step: 100", "Step: 200"]


def test_adaptive_steps_follow_the_load() -> None:
    def step(config: dict[str, Any], rate: float) -> tuple[int, int]:
        scenario = brief("steady", 60.0, rate)
        cluster, applications = applications_of(scenario, scenario.load(0))
        executor = RLActionExecutor(applications[0], config)
        cluster.advance(40.0)
        return executor.scale_step("prompt", 1.0), executor.scale_step("prompt", -1.0)

    assert step({}, 200.0) == (5, 5)
    assert step({"adaptive_step": True}, 200.0) == (10, 2)
    assert step({"adaptive_step": True}, 0.2) == (2, 10)
