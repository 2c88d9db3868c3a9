"""Scenarios: names become sources, wrong ones are explained, and sources travel between processes."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proreus.model.errors import InputError, UsageError
from proreus.worlds.pods.scenarios import (
    FromCatalogue,
    FromFiles,
    Generated,
    PodScenario,
    WorkloadSource,
    parse_scenario,
    scenario_from_json,
)
from proreus.worlds.pods.simulation.world import PodsOptions

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
NODES = "sn,cpu_milli,memory_mib,gpu,model\na,8000,8192,2,T4\n"
PODS = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,1,500\nq,1000,1024,1,1000\n"
INSTANCES = (
    "instance_sn,role,app_name,cpu_request,cpu_limit,gpu_request,gpu_limit,rdma_request,rdma_limit,"
    "memory_request,memory_limit,disk_request,disk_limit,max_instance_per_node,"
    "creation_time,scheduled_time,deletion_time\n"
    "late,CN,web,64,64,0,0,1,1,320.0,320.0,255.0,300.0,-1,500.5,501,600.5\n"
)
JOBS = "\t".join(["LM", "python3 main.py", "--steps", "1", "100", "6.0", "1"]) + "\n"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder with an openb of our own and the files of the other formats."""
    (tmp_path / "openb").mkdir()
    (tmp_path / "openb" / "openb_node_list_gpu_node.csv").write_text(NODES)
    (tmp_path / "openb" / "openb_pod_list_default.csv").write_text(PODS)
    (tmp_path / "instances.csv").write_text(INSTANCES)
    (tmp_path / "jobs.trace").write_text(JOBS)
    (tmp_path / "speeds.json").write_text(json.dumps({"v100": {"('LM', 1)": {"null": 10.0}}}))
    return tmp_path


@pytest.mark.parametrize(("preset", "drops"), [("small", False), ("medium", False), ("gpu", True)])
def test_presets_need_no_data(preset: str, drops: bool) -> None:
    scenario = parse_scenario(preset, None)
    assert scenario.source == Generated(preset)
    assert scenario.name == preset
    assert scenario.options.drop_failures is drops


def test_the_openb_experiment_drops_and_its_trace_does_not(data: Path) -> None:
    experiment = parse_scenario("openb/default", data)
    assert experiment.source == FromCatalogue("openb/default", data)
    assert experiment.options.drop_failures
    assert not parse_scenario("openb-trace/default", data).options.drop_failures
    loaded = experiment.source.load(3)
    assert (loaded.name, len(loaded.nodes)) == ("openb/default", 1)
    assert loaded == experiment.source.load(3)


def test_the_openb_experiment_on_fewer_nodes(data: Path) -> None:
    scenario = parse_scenario("openb/default@1", data)
    assert scenario.source == FromCatalogue("openb/default", data, 1)
    assert scenario.options.drop_failures and scenario.source.load(3).name == "openb/default@1"
    assert scenario_from_json(scenario.to_json()) == scenario
    with pytest.raises(UsageError, match="after @ comes a number of nodes"):
        parse_scenario("openb/default@x", data)


@pytest.mark.parametrize(
    ("text", "near"),
    [
        ("smal", "small"),
        ("openb/defualt", "openb/default"),
        ("k8ssim/larg", "k8ssim/large"),
        ("openb/*", "openb/"),
    ],
)
def test_an_unknown_name_gets_the_nearest(data: Path, text: str, near: str) -> None:
    with pytest.raises(UsageError, match=f"unknown scenario .*; did you mean '{near}"):
        parse_scenario(text, data)


@pytest.mark.parametrize("text", ["openb/default", "alibaba2025", "k8ssim/large"])
def test_a_dataset_without_a_folder_says_how_to_give_one(text: str) -> None:
    with pytest.raises(InputError, match="needs data files; point --data or PROREUS_DATA at"):
        parse_scenario(text, None)


def test_files_of_every_format(data: Path) -> None:
    openb = data / "openb"
    sources = [
        FromFiles("openb", openb / "openb_pod_list_default.csv", openb / "openb_node_list_gpu_node.csv"),
        FromFiles("k8ssim", FIXTURES / "sim_jobs.yaml", FIXTURES / "sim_nodes.yaml"),
        FromFiles("manifests", FIXTURES / "shop.yaml"),
        FromFiles("alibaba2025", data / "instances.csv"),
        FromFiles("gavel", data / "jobs.trace", throughputs=data / "speeds.json"),
    ]
    for source in sources:
        workload = source.load(0)
        assert workload.nodes and workload.pods
        assert source.name == f"{source.format}:{source.pods.name}"


def test_files_that_are_missing_or_too_many() -> None:
    some = Path("x")
    with pytest.raises(UsageError, match="openb needs a file of nodes"):
        FromFiles("openb", some)
    with pytest.raises(UsageError, match="gavel needs a file of throughputs"):
        FromFiles("gavel", some)
    with pytest.raises(UsageError, match="alibaba2025 takes no file of nodes"):
        FromFiles("alibaba2025", some, some)
    with pytest.raises(UsageError, match="manifests takes no file of throughputs"):
        FromFiles("manifests", some, throughputs=some)


@pytest.mark.parametrize(
    "source",
    [Generated("gpu"), FromCatalogue("alibaba2025", Path("d")), FromFiles("manifests", Path("m.yaml"))],
)
def test_scenarios_travel(source: WorkloadSource) -> None:
    scenario = PodScenario(source)
    assert pickle.loads(pickle.dumps(scenario)) == scenario


@pytest.mark.parametrize(
    "source",
    [
        Generated("gpu"),
        Generated("small", 40),
        FromCatalogue("openb/default", Path("/data")),
        FromFiles("openb", Path("/traces/pods.csv"), Path("/traces/nodes.csv")),
        FromFiles("gavel", Path("/a"), throughputs=Path("/b")),
    ],
)
@pytest.mark.parametrize("options", [PodsOptions(), PodsOptions(drop_failures=True, attempt_limit=3)])
def test_scenarios_come_back_from_json(source: WorkloadSource, options: PodsOptions) -> None:
    scenario = PodScenario(source, options)
    entry = json.loads(json.dumps(scenario.to_json()))
    assert scenario_from_json(entry) == scenario
    moved = scenario_from_json(entry, Path("/elsewhere")).source
    assert moved == (
        replace(source, data=Path("/elsewhere")) if isinstance(source, FromCatalogue) else source
    )


@pytest.mark.parametrize(
    "entry",
    [
        "gpu",
        {},
        {"kind": "oracle", "source": {}, "options": {}},
        {"kind": "generated", "source": {"presets": "gpu"}, "options": {}},
        {"kind": "generated", "source": {"preset": "gpu"}, "options": {"drop": True}},
    ],
)
def test_what_is_no_scenario_is_refused(entry: Any) -> None:
    with pytest.raises(ValueError, match="not a scenario"):
        scenario_from_json(entry)
