"""Clusters as files: what the document's YAML says is what is simulated, and mistakes are named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from proreus.model.errors import InputError, UsageError
from proreus.worlds.inference.flags import InferenceFlags
from proreus.worlds.inference.model.cluster import Group
from proreus.worlds.inference.model.decision import NOTHING
from proreus.worlds.inference.scenarios import from_json
from tests.real_data import real_data

FILE = """
applications:
  - application_id: 0
    scheduler: mixed_pool
    scaling_manager:
      scale_up_delay: 10.0
      drain_check_interval: 1.0
    start_state:
      prompt: {num_instances: 2, server_sku: h100-80gb, parallelism: {tensor_parallelism: 4}}
      token: {num_instances: 3, server_sku: a100-80gb, max_batch_size: 128, instance_type: chunked}
  - application_id: 1
    model: llama3-8b
    share: 3
    start_state:
      prompt: {num_instances: 1, server_sku: a100-80gb, parallelism: {tensor_parallelism: 1}}
      token: {num_instances: 1, server_sku: a100-80gb, parallelism: {tensor_parallelism: 1}}
rl:
  action_scale_step: 4
  action_mig_step: 2
  min_instances_per_pool: 1
  max_total_instances: 30
  decision_interval: 5
"""


def chosen(folder: Path, text: str, **flags: object) -> object:
    """The scenario of such a file."""
    (folder / "cluster.yaml").write_text(text)
    return InferenceFlags(cluster=folder / "cluster.yaml", **flags).chosen("steady")  # type: ignore[arg-type]


def test_a_file_is_what_is_simulated(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(FILE)
    inference_scenario = InferenceFlags(cluster=tmp_path / "cluster.yaml").chosen("steady")
    spec, control = inference_scenario.machines.spec(), inference_scenario.control
    assert spec.groups == (
        Group("llama3-70b-4xh100-80gb", "prompt", 2),
        Group("llama3-70b-4xa100-80gb", "token", 3),
        Group("llama3-8b-1xa100-80gb", "prompt", 1),
        Group("llama3-8b-1xa100-80gb", "token", 1),
    )
    assert [kind.batch_limit for kind in spec.kinds] == [256, 128, 256]
    assert spec.drain_check_seconds == 1.0 and spec.scheduler == "mixed_pool"
    assert all(control.start.seconds(kind) == pytest.approx(10.0) for kind in spec.kinds)
    assert (control.scale_step, control.migrate_step, control.interval) == (4, 2, 5.0)
    assert (control.limits.least, control.limits.most_in_total) == (1, 30)
    assert inference_scenario.machines.shares() == {"llama3-70b": 1.0, "llama3-8b": 3.0}
    assert from_json(json.loads(json.dumps(inference_scenario.to_json())), None) == inference_scenario
    again = InferenceFlags(cluster=tmp_path / "cluster.yaml", interval=20.0).chosen("steady")
    assert again.control.interval == 20.0, "a flag beats the file"


def test_what_a_file_leaves_out_is_as_the_document_or_the_scenario_has_it(tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text(
        "applications:\n  - application_id: 0\n    scaling_manager: {scale_up_delay: 30}\n"
    )
    inference_scenario = InferenceFlags(cluster=tmp_path / "cluster.yaml").chosen("surge")
    plain = InferenceFlags().chosen("surge")
    machines = replace(inference_scenario.machines, drain_check_seconds=plain.machines.drain_check_seconds)
    assert machines == plain.machines
    assert inference_scenario.control.limits == replace(plain.control.limits, most_in_total=100)
    assert inference_scenario.control.start.provision_seconds == 30.0


@pytest.mark.parametrize(
    ("wrong", "instead", "field", "says"),
    [
        ("action_scale_step: 4", "action_scale_steps: 4", "rl.action_scale_steps", "unknown field"),
        ("scale_up_delay: 10.0", "scale_up_delay: soon", "scaling_manager.scale_up_delay", "not a number"),
        ("scale_up_delay: 10.0", "scale_up_delay: -1", "scaling_manager.scale_up_delay", "-1"),
        ("num_instances: 2, ", "", "start_state.prompt.num_instances", "missing"),
        ("h100-80gb", "h300", "prompt.server_sku", "unknown GPU 'h300'"),
        ("model: llama3-8b", "model: llama4", "applications[1].model", "unknown language model"),
        ("instance_type: chunked", "instance_type: fast", "token.instance_type", "none of orca"),
        ("scheduler: mixed_pool", "scheduler: best", "applications[0].scheduler", "none of random"),
        ("application_id: 1", "application_id: 0", "applications[1]", "more than once"),
        ("max_total_instances: 30", "max_total_instances: 1e9", "rl.max_total_instances", "above 10000"),
        ("decision_interval: 5", "decision_interval: 0", "rl.decision_interval", "0"),
    ],
)
def test_mistakes_are_named(wrong: str, instead: str, field: str, says: str, tmp_path: Path) -> None:
    line = FILE[: FILE.index(wrong)].count("\n") + 1
    with pytest.raises(InputError) as exception_info:
        chosen(tmp_path, FILE.replace(wrong, instead, 1))
    message = str(exception_info.value)
    assert "cluster.yaml" in message and field in message and says in message and "\n" not in message
    assert f"cluster.yaml:{line}: " in message


def test_a_file_without_applications_or_with_two_opinions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one"):
        chosen(tmp_path, "rl: {decision_interval: 5}\n")
    two = "applications:\n" + "".join(
        f"  - {{application_id: {number}, scheduler: {name}}}\n"
        for number, name in enumerate(("mixed_pool", "kv_jsq"))
    )
    with pytest.raises(InputError, match="same one"):
        chosen(tmp_path, two)
    with pytest.raises(UsageError, match="does not fit"):
        scenario = InferenceFlags(cluster=_small(tmp_path)).chosen("steady")
        scenario.machines.spec()


def _small(folder: Path) -> Path:
    path = folder / "small.yaml"
    path.write_text(
        "applications:\n  - start_state:\n      prompt: {num_instances: 1, "
        "parallelism: {tensor_parallelism: 1}}\n"
    )
    return path


def test_the_published_table_is_a_timing(tmp_path: Path) -> None:
    data = real_data("llm/splitwise")
    flags = InferenceFlags(
        data=data, timing="table", model="bloom-176b", gpus=8, engine="splitwise", rate=2.0, seconds=60.0
    )
    scenario = flags.chosen("steady")
    assert from_json(json.loads(json.dumps(scenario.to_json())), None) == scenario
    run = scenario.start(scenario.load(0), 0)
    while run.next_decision() is not None:
        run.apply(NOTHING)
    measures = run.outcome().measures
    # Tokens hardly slow down whatever the load, and an H100 is faster than the A100 they are held against.
    assert 0.6 < measures["tbt_slowdown_p50"] < 1.0
    with pytest.raises(UsageError, match="unknown timing 'llama3-70b/h100-80gb/4'"):
        wrong = InferenceFlags(data=data, timing="table").chosen("steady")
        wrong.start(wrong.load(0), 0)
