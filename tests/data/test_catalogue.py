"""The catalogue: names, folders and what is said when one of them is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from proreus.data.catalogue import VARIABLE, data_dir, files_of, holds, known
from proreus.model.errors import InputError, UsageError
from proreus.worlds import registered, world
from proreus.worlds.pods.datasets.catalogue import DATASETS, load
from proreus.worlds.rebalance.snapshots.datasets import catalogue as snapshots
from proreus.worlds.rebalance.windows.datasets import catalogue as windows
from proreus.worlds.vms.datasets import catalogue as vms

HOW = "point --data or PROREUS_DATA at"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A data folder with a tiny openb of our own."""
    openb = tmp_path / "openb"
    openb.mkdir()
    (openb / "openb_node_list_gpu_node.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\na,8000,8192,2,T4\n"
    )
    pods = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,1,500\nq,1000,1024,1,1000\n"
    (openb / "openb_pod_list_mine.csv").write_text(pods)
    return tmp_path


def test_folder_comes_from_the_option_then_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    assert data_dir(other) == other
    assert data_dir(None) == tmp_path
    monkeypatch.setenv(VARIABLE, "")
    assert data_dir(None) is None
    monkeypatch.delenv(VARIABLE)
    assert data_dir(None) is None


def test_a_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=f"absent: no such folder; {HOW}"):
        data_dir(tmp_path / "absent")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "absent"))
    with pytest.raises(InputError, match="no such folder"):
        data_dir(None)


def test_families_list_the_members_that_are_there(folder: Path) -> None:
    names = set(known(DATASETS, folder))
    assert {"openb/mine", "openb-trace/mine", "gavel/*", "alibaba2025"} <= names
    assert set(known(DATASETS, None)) == set(DATASETS)


def test_every_dataset_says_what_it_is() -> None:
    for name in registered():
        for dataset in world(name).datasets.values():
            assert dataset.what and dataset.licence and dataset.files


def test_the_listing_has_the_datasets_of_every_world() -> None:
    worlds = (DATASETS, vms.DATASETS, windows.DATASETS, snapshots.DATASETS)
    names = [name for known in registered() for name in world(known).datasets]
    assert {name for datasets in worlds for name in datasets} <= set(names)
    assert len(set(names)) == len(names), "no two worlds give the same name to different files"
    assert {"huawei", "windows/huawei", "bytedance", "traces", "azure", "servegen"} <= set(names)


def test_loads_by_name(folder: Path) -> None:
    experiment = load("openb/mine", folder, seed=1)
    assert experiment.name == "openb/mine"
    assert sum(pod.spec.gpu.milli for pod in experiment.pods) >= 2600
    assert load("openb/mine", folder, seed=1) == experiment
    assert [pod.name for pod in load("openb-trace/mine", folder, seed=1).pods] == ["p", "q"]


@pytest.mark.parametrize("name", ["openb/default", "k8ssim/large", "gavel/x", "alibaba2025"])
def test_missing_data_says_how_to_point_at_it(tmp_path: Path, name: str) -> None:
    for where in (None, tmp_path):
        with pytest.raises(InputError, match=HOW) as caught:
            load(name, where, seed=0)
        assert "shared" not in str(caught.value)


def test_every_world_says_it_alike(tmp_path: Path) -> None:
    for datasets, name in (
        (vms.DATASETS, "huawei"),
        (windows.DATASETS, "windows/monitor"),
        (snapshots.DATASETS, "bytedance"),
    ):
        with pytest.raises(InputError, match=f"the dataset '{name}' needs data files; {HOW}"):
            files_of(datasets, name, None)
        with pytest.raises(InputError, match=f"no such file; {HOW}"):
            files_of(datasets, name, tmp_path)
        assert not holds(datasets, name, tmp_path)
        for file in datasets[name].files:
            (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / file).write_text("")
        assert holds(datasets, name, tmp_path)
        assert [path.relative_to(tmp_path).as_posix() for path in files_of(datasets, name, tmp_path)] == list(
            datasets[name].files
        )


def test_a_missing_member_names_those_that_are_there(folder: Path) -> None:
    with pytest.raises(InputError, match=r"openb_pod_list_yours\.csv: no such file \(there are: mine\)"):
        load("openb/yours", folder, seed=0)


@pytest.mark.parametrize(
    "name", ["opnb/default", "openb", "openb/", "openb/*", "openb/../mine", "k8ssim/huge"]
)
def test_unknown_names(folder: Path, name: str) -> None:
    with pytest.raises(UsageError, match="unknown dataset"):
        load(name, folder, seed=0)


def test_every_real_dataset_loads(real_data: Path) -> None:
    names = [name for name in known(DATASETS, real_data) if not name.startswith("openb-trace/")]
    sizes = {name: len(load(name, real_data, seed=42).pods) for name in names}
    assert sizes["k8ssim/large"] == 350
    assert sizes["alibaba2025"] == 23_871
    assert all(sizes.values())
    trace = load("openb-trace/default", real_data, seed=42)
    assert (len(trace.nodes), len(trace.pods), trace.pods[0].arrival) == (1213, 8152, 0.0)
