"""Which policies are loaded for whoever names them: nothing that somebody else could have written."""

from __future__ import annotations

import importlib.util
import os
import py_compile
from pathlib import Path

import pytest

from proreus.engine.objects.scheduler_config import Chosen
from proreus.engine.scheduler.core import SchedulingCore, SchedulingOptions
from proreus.model.errors import UsageError
from proreus.policies.plugins import attribute_of
from proreus.policies.policy_folders import NotAdmitted, PolicyFolders
from proreus.worlds.pods.policies.catalogue import POLICIES
from proreus.worlds.pods.policies.checkpoint_tensors import PRETRAINED

_MINE = "class Mine:\n    def decide(self, observation):\n        return None\n"
_NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "policies"
    (made / "inner").mkdir(parents=True, mode=0o755)
    (made / "inner" / "mine.py").write_text(_MINE)
    for path in (made, made / "inner"):
        path.chmod(0o755)
    return made


def _admitted(folder: Path, name: str) -> str:
    return POLICIES.admitted(name, PolicyFolders.of((folder,)))


def test_what_is_in_a_named_folder_comes_back_resolved(folder: Path, tmp_path: Path) -> None:
    mine = f"{folder}/inner/mine.py:Mine"
    assert _admitted(folder, mine) == mine
    (tmp_path / "link.py").symlink_to(folder / "inner" / "mine.py")
    assert _admitted(folder, f"{tmp_path}/link.py:Mine") == mine, "the link may be turned; this may not"
    assert _admitted(folder, f"planner@{folder}/../policies/inner/mine.py:Mine") == f"planner@{mine}"
    (folder / "run" / "best").parent.mkdir(mode=0o755)
    (folder / "run" / "best").mkdir(mode=0o755)
    for part in (PRETRAINED / "pods").iterdir():
        (folder / "run" / "best" / part.name).write_bytes(part.read_bytes())
    assert _admitted(folder, f"{folder}/run") == f"{folder}/run/best"
    assert _admitted(folder, f"{folder}/run@cost") == f"{folder}/run/best@cost"
    for shipped in ("kube", "learned", "learned@cost", "planner", "planner@fgd", "vector@vector-k8ssim"):
        assert _admitted(folder, shipped) == shipped


@pytest.mark.parametrize("what", ["policies", "policies/inner", "policies/inner/mine.py"])
@pytest.mark.parametrize("mode", [0o020, 0o002])
def test_what_others_may_write_is_refused_with_the_way_out(folder: Path, what: str, mode: int) -> None:
    folders = PolicyFolders.of((folder,))
    path = folder.parent / what
    path.chmod(path.stat().st_mode | mode)
    with pytest.raises(NotAdmitted, match=rf"may write {path}; chmod go-w"):
        POLICIES.admitted(f"{folder}/inner/mine.py:Mine", folders)
    if path == folder:
        with pytest.raises(UsageError, match=r"--policy-folder .*chmod go-w"):
            PolicyFolders.of((folder,))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")
@pytest.mark.parametrize("what", ["policies", "policies/inner", "policies/inner/mine.py"])
def test_what_belongs_to_another_user_is_refused(folder: Path, what: str) -> None:
    folders = PolicyFolders.of((folder,))
    os.chown(folder.parent / what, _NOBODY, _NOBODY)
    with pytest.raises(NotAdmitted, match=f"belongs to another user .uid {_NOBODY}"):
        POLICIES.admitted(f"{folder}/inner/mine.py:Mine", folders)


def test_a_folder_that_others_can_put_another_in_place_of_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open" / "policies").mkdir(parents=True, mode=0o755)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(UsageError, match=r"other users may write .*/open"):
        PolicyFolders.of((tmp_path / "open" / "policies",))
    (tmp_path / "open").chmod(0o1777)  # as /tmp: nobody moves there what is another's
    assert PolicyFolders.of((tmp_path / "open" / "policies",)).folders


def test_what_compilers_left_beside_it_counts_too(folder: Path) -> None:
    (folder / "inner" / "__pycache__").mkdir()
    (folder / "inner" / "__pycache__").chmod(0o777)
    with pytest.raises(NotAdmitted, match="__pycache__"):
        _admitted(folder, f"{folder}/inner/mine.py:Mine")


def test_a_file_is_what_its_text_says_and_not_what_lies_in_its_cache(tmp_path: Path) -> None:
    path, evil = tmp_path / "cached.py", tmp_path / "evil.py"
    path.write_text("Name = 'text'\n")
    evil.write_text("Name = 'evil'\n")
    os.utime(evil, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    py_compile.compile(str(evil), cfile=importlib.util.cache_from_source(str(path)))
    assert attribute_of(f"{path}:Name", "policy") == "text"


def test_links_inside_of_a_checkpoint_lead_nowhere(folder: Path, tmp_path: Path) -> None:
    (folder / "run").mkdir(mode=0o755)
    for part in (PRETRAINED / "pods").iterdir():
        (tmp_path / part.name).write_bytes(part.read_bytes())
        (folder / "run" / part.name).symlink_to(tmp_path / part.name)
    with pytest.raises(NotAdmitted, match="is a link"):
        _admitted(folder, f"{folder}/run")


def test_the_scheduling_agent_loads_nothing_else_whoever_wrote_it_into_the_store(
    folder: Path, tmp_path: Path
) -> None:
    own = f"{tmp_path}/own.py:Mine"
    (tmp_path / "own.py").write_text(_MINE)
    (tmp_path / "evil.py").write_text(_MINE)
    core = SchedulingCore(SchedulingOptions(default=Chosen(own), policy_folders=(folder,)))
    assert core.refusal(Chosen(own)) == "", "the operator gave it"
    assert core.refusal(Chosen(f"{folder}/inner/mine.py:Mine")) == ""
    for name in (
        f"{tmp_path}/evil.py:Mine",
        "os:system",
        f"{__name__}:Mine",
        f"planner@{tmp_path}/evil.py:Mine",
    ):
        assert "policy: " in core.refusal(Chosen(name)) and "--policy-folder" in core.refusal(Chosen(name))
        refusal = core.refusal(Chosen("kube", candidate=name))
        assert "--policy-folder" in refusal, "a candidate is asked in the shadow"


@pytest.mark.parametrize(
    "name", ["n" * 350, "/" + "n" * 300, "n/" * 3000, "é" * 200, f"{'n' * 300}.py:X", "a@" + "n" * 300]
)
def test_a_name_that_no_file_can_have_is_unknown(folder: Path, name: str) -> None:
    for asked in (name, f"{folder}/{name}"):
        with pytest.raises(UsageError, match="unknown policy"):
            _admitted(folder, asked)
        with pytest.raises(UsageError, match="unknown policy"):
            POLICIES.make(asked)
        assert POLICIES.is_own(asked)
