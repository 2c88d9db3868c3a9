"""Help, flags and wrong commands: exit 0 or 2, and one line that helps."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from proreus.cli.kube import ACTIONS
from proreus.cli.main import VERBS
from proreus.version import __version__
from proreus.worlds.pods.policies.catalogue import POLICIES
from tests.cli.runner import Proreus, assert_refused, environment, run_process

HELP = {
    "simulate": ("simulate", "--help"),
    "simulate pods": ("simulate", "pods", "--help"),
    "compare": ("compare", "--help"),
    "compare pods": ("compare", "pods", "--help"),
    "simulate vms": ("simulate", "vms", "--help"),
    "compare vms": ("compare", "vms", "--help"),
    "train vms": ("train", "vms", "--help"),
    "train": ("train", "--help"),
    "train pods": ("train", "pods", "--help"),
    "tune": ("tune", "--help"),
    "tune pods": ("tune", "pods", "--help"),
    "tune vms": ("tune", "vms", "--help"),
    "tune rebalance": ("tune", "rebalance", "--help"),
    "combine": ("combine", "--help"),
    "curve": ("curve", "--help"),
    "serve": ("serve", "--help"),
    "serve rest": ("serve", "rest", "--help"),
    "serve grpc": ("serve", "grpc", "--help"),
    "serve all": ("serve", "all", "--help"),
    "bench": ("bench", "--help"),
    "bench pods": ("bench", "pods", "--help"),
    "models": ("models", "--help"),
    "models list": ("models", "list", "--help"),
    "models train": ("models", "train", "--help"),
    "models judge": ("models", "judge", "--help"),
    "records": ("records", "--help"),
    "records verify": ("records", "verify", "--help"),
    "records export": ("records", "export", "--help"),
    "records prune": ("records", "prune", "--help"),
    "data": ("data", "--help"),
    "data list": ("data", "list", "--help"),
    "demo": ("demo", "--help"),
    "dashboard": ("dashboard", "--help"),
    "up": ("up", "--help"),
    "down": ("down", "--help"),
    "agent": ("agent", "--help"),
    "apply": ("apply", "--help"),
    "get": ("get", "--help"),
    "describe": ("describe", "--help"),
    "top": ("top", "--help"),
    "logs": ("logs", "--help"),
    "exec": ("exec", "--help"),
    "images": ("images", "--help"),
    "images list": ("images", "list", "--help"),
    "images remove": ("images", "remove", "--help"),
    "delete": ("delete", "--help"),
    "drain": ("drain", "--help"),
    "cordon": ("cordon", "--help"),
    "uncordon": ("uncordon", "--help"),
    **{f"kube {action}": ("kube", action, "--help") for action in ACTIONS},
}
ASKING = (
    *("apply", "get", "describe", "top", "logs", "exec", "images", "delete", "drain", "cordon"),
    "uncordon",
)
"""Verbs that ask a running cluster: they draw nothing, and have a flag that says which cluster."""


OWN = {"down": "--dir", "records": "PLACE"}
"""Others that draw nothing, and what says where instead."""


@pytest.mark.parametrize("words", HELP.values(), ids=HELP)
def test_every_help_ends_well_and_has_an_example(words: tuple[str, ...], proreus: Proreus) -> None:
    ended = proreus(*words)
    assert (ended.code, ended.err) == (0, "")
    assert re.search(rf"Example: proreus {words[0]}\b", ended.out)
    own = "--server" if words[0] in ASKING else OWN.get(words[0], "--seed")
    for flag in (own, "--json", "--log-level", "--log-json"):
        assert flag in ended.out


def test_every_verb_has_its_help_tested() -> None:
    assert {words[0] for words in HELP.values()} == set(VERBS)


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("help",)])
def test_the_general_help_names_every_verb_with_an_example(words: tuple[str, ...], proreus: Proreus) -> None:
    ended = proreus(*words)
    assert (ended.code, ended.err) == (0, "")
    for verb, (_, does, example) in VERBS.items():
        assert re.search(rf"^  {verb} +{re.escape(does)}$", ended.out, re.MULTILINE)
        assert example in ended.out


def test_version(proreus: Proreus) -> None:
    for words in ("--version", "-V", "version"):
        assert proreus(words).out == f"proreus {__version__}\n"


def test_help_names_every_policy(proreus: Proreus) -> None:
    for verb in ("simulate", "compare"):
        text = proreus(verb, "--help").out
        assert all(policy in text for policy in POLICIES.names)


def test_the_example_of_simulate_in_the_general_help_works(proreus: Proreus) -> None:
    assert proreus(*shlex.split(VERBS["simulate"][2])[1:]).code == 0


def test_the_example_in_the_help_of_simulate_works(proreus: Proreus) -> None:
    match = re.search(r"Example: proreus (simulate .*)", proreus("simulate", "--help").out)
    assert match is not None
    ended = proreus(*shlex.split(match[1]))
    assert (ended.code, ended.err) == (0, "")


def test_dashes_and_underscores_are_the_same(proreus: Proreus, tmp_path: Path) -> None:
    for name, words in {
        "dashes": ("--kube-version", "1.34", "--log-level", "error", "--drop-failures", "True"),
        "underscores": ("--kube_version", "1.34", "--log_level", "error", "--drop_failures", "True"),
    }.items():
        assert proreus("simulate", "pods", *words, "--log", f"{name}.csv").code == 0
    assert (tmp_path / "dashes.csv").read_bytes() == (tmp_path / "underscores.csv").read_bytes()
    assert proreus("simulate", "pods", "--no_preempt", "--log", "calm.csv").code == 0
    assert proreus("simulate", "pods", "--no-preempt", "--log", "quiet.csv").code == 0
    assert (tmp_path / "calm.csv").read_bytes() == (tmp_path / "quiet.csv").read_bytes()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("simulat",), ("unknown verb 'simulat'", "did you mean 'simulate'?")),
        (("--frobnicate",), ("unknown verb",)),
        (("simulate",), ("name a world: pods",)),
        (("simulate", "podz"), ("unknown world 'podz'", "did you mean 'pods'?")),
        (("simulate", "pods", "stray"), ("stray", "proreus simulate pods --help")),
        (("simulate", "pods", "--nonsense", "1"), ("--nonsense", "proreus simulate pods --help")),
        (("simulate", "pods", "--policy"), ("--policy", "Missing value")),
        (("simulate", "pods", "--policy", "kubee"), ("unknown policy 'kubee'", "did you mean 'kube'?")),
        (("simulate", "pods", "--scenario", "smal"), ("unknown scenario 'smal'", "did you mean 'small'?")),
        (("simulate", "pods", "--scenario", "openb/default"), ("needs data files", "PROREUS_DATA")),
        (("simulate", "pods", "--scenario", "openb/../x", "--data", "."), ("openb/../x",)),
        (("simulate", "pods", "--explain", "nobody"), ("unknown pod 'nobody'",)),
        (("simulate", "pods", "--seed", "x"), ("--seed", "'x'")),
        (("simulate", "pods", "--seed", "1.5"), ("--seed", "'1.5'")),
        (("simulate", "pods", "--tie", "coin"), ("--tie", "'coin'", "rotating")),
        (("simulate", "pods", "--log-level", "loud"), ("--log-level", "'loud'", "warning")),
        (("simulate", "pods", "--format", "xml", "--pods", "p"), ("--format", "'xml'", "manifests")),
        (("simulate", "pods", "--format", "openb"), ("--format openb needs --pods FILE",)),
        (("simulate", "pods", "--format", "openb", "--pods", "p.csv"), ("openb", "nodes")),
        (("simulate", "pods", "--format", "gavel", "--pods", "p.csv"), ("gavel", "throughputs")),
        (("simulate", "pods", "--pods", "p.csv"), ("--format",)),
        (("simulate", "pods", "--kube-percentage", "101"), ("101", "outside 0..100")),
        (("simulate", "pods", "--load-target", "nan"), ("nan",)),
        (("simulate", "pods", "--load-sensitivity", "-1"), ("--load-sensitivity -1.0",)),
        (("simulate", "pods", "--data", "nowhere"), ("nowhere: no such folder",)),
        (("compare",), ("name a world: pods",)),
        (("compare", "vm"), ("unknown world 'vm'", "did you mean 'vms'?")),
        (("compare", "vms", "--policies", "first_fitt"), ("unknown policy 'first_fitt'", "'first_fit'?")),
        (
            ("compare", "vms", "--scenario", "waitin"),
            ("unknown scenario 'waitin'", "did you mean 'waiting'?"),
        ),
        (("simulate", "vms", "--scenario", "huawei/waiting"), ("needs data files", "PROREUS_DATA")),
        (("simulate", "vms", "--scenario", "waiting@0"), ("number of servers",)),
        (("simulate", "vms", "--trace", "gone.csv"), ("gone.csv: no such file",)),
        (("simulate", "vms", "--servers", "5"), ("write 5x40/90",)),
        (("simulate", "vms", "--double", "disk>3"), ("double rule 'disk>3'",)),
        (("simulate", "vms", "--starts", "0"), ("starts: 0",)),
        (("simulate", "vms", "--scenario", "waiting", "--release", "False"), ("wait", "give back")),
        (("simulate", "vms", "--expand-threshold", "1.5"), ("threshold",)),
        (("simulate", "vms", "--growing-nums", "-1"), ("growth",)),
        (("train", "vms", "--generations", "0", "--out", "r"), ("generations: 0",)),
        (("train", "vms", "--resume", "nowhere"), ("nowhere/settings.json",)),
        (("compare", "pods", "--seeds", "0"), ("--seeds 0",)),
        (("compare", "pods", "--seeds", "-3"), ("--seeds -3",)),
        (("compare", "pods", "--seed", "-1"), ("negative",)),
        (("compare", "pods", "--processes", "-2"), ("--processes -2",)),
        (("compare", "pods", "--policies", "kube,nope"), ("unknown policy 'nope'",)),
        (("compare", "pods", "--policies", ","), ("no policy",)),
        (("compare", "pods", "--policies", "kube,kube"), ("'kube' is named twice",)),
        (("compare", "pods", "--scenarios", "small,smell"), ("unknown scenario 'smell'",)),
        (("compare", "pods", "--scenarios", "small,small"), ("'small' is named twice",)),
        (("bench",), ("name a benchmark: pods",)),
        (("bench", "pod"), ("unknown benchmark 'pod'", "did you mean 'pods'?")),
        (("bench", "pods", "--data", "nowhere"), ("nowhere: no such folder",)),
        (("data",), ("list",)),
        (("data", "lst"), ("unknown action 'lst'", "did you mean 'list'?")),
        (("data", "list", "--data", "nowhere"), ("nowhere: no such folder",)),
        (("demo", "--seeds", "0"), ("seed",)),
        (("demo", "--seeds", "-1"), ("seed",)),
        (("up", "--nodes", "-1"), ("--nodes -1 is outside 0..5000",)),
        (("up", "--nodes", "3", "--runtime", "process"), ("--nodes simulates", "--runtime")),
        (("up", "--nodes", "3", "--allow-privileged"), ("--nodes simulates", "--allow-privileged")),
        (("up", "--node-cpu", "4"), ("--node-cpu", "--nodes N")),
        (("up", "--runtime", "docker"), ("docker", "containerd")),
        (("up", "--allow-host-path", "nowhere"), ("--allow-host-path nowhere",)),
        (
            ("up", "--dir", "state", "--runtime", "containerd", "--socket", "none"),
            ("there is no containerd",),
        ),
        (("agent", "--store", "sqlite:x", "--nodes", "1", "--runtime", "runc"), ("--nodes simulates",)),
        (("down", "--dir", "nowhere"), ("no cluster is kept in nowhere", "--dir")),
        (("up", "--port", "70000"), ("--port 70000 is outside 0..65535",)),
        (("up", "--node-cpu", "many"), ("--node-cpu", "not a quantity")),
        (("up", "--node-memory", "0"), ("--node-memory",)),
        (("up", "--deadline-ms", "0"), ("--deadline-ms",)),
        (("up", "--dir", "state", "--host", "0.0.0.0"), ("--token-file",)),
        (("up", "--dir", "state", "--store", "ftp://x"), ("unknown kind 'ftp'", "sqlite:PATH")),
        (("up", "--dir", "state", "--scheduler", "kubee"), ("unknown policy 'kubee'", "'kube'?")),
        (("up", "--dir", "state", "--tls-cert", "c.pem"), ("--tls-cert and --tls-key",)),
        (("agent",), ("--store",)),
        (("agent", "--store", "memory:"), ("memory:",)),
        (("get",), ("name a kind: pods",)),
        (("get", "podz"), ("unknown kind 'podz'", "did you mean 'pods'?")),
        (("get", "pods", "--dir", "nowhere"), ("no cluster is known here", "proreus up")),
        (("get", "pods", "-o", "xml"), ("xml", "wide")),
        (("get", "pods", "a", "-A"), ("exclude each other",)),
        (("get", "pods", "--server", "nonsense"), ("is no address such as",)),
        (("apply",), ("-f FILE",)),
        (("apply", "-f", "gone.yaml"), ("gone.yaml: no such file",)),
        (("describe",), ("name a kind",)),
        (("logs",), ("name a pod",)),
        (("logs", "p", "--tail", "-1"), ("--tail -1",)),
        (("exec", "p"), ("proreus exec POD -- COMMAND",)),
        (("images",), ("import, list, pack, remove",)),
        (("images", "pull"), ("unknown action 'pull'",)),
        (("images", "import"), ("name an archive",)),
        (("images", "import", "gone.tar"), ("gone.tar: no such file",)),
        (("images", "import", "a.tar", "--name", ":::"), ("':::' is no name of an image",)),
        (("images", "import", "a.tar", "--name", "Bad Name"), ("'Bad Name' is no name of an image",)),
        (("images", "remove"), ("name an image",)),
        (("delete",), ("name what to delete",)),
        (("delete", "pods", "a", "--grace-period", "-1"), ("--grace-period -1",)),
        (("drain",), ("name a node",)),
        (("drain", "n", "--timeout", "nan"), ("--timeout",)),
        (("cordon",), ("name a node",)),
    ],
    ids=" ".join,
)
def test_a_wrong_command_is_answered_in_one_line(
    words: tuple[str, ...], says: tuple[str, ...], proreus: Proreus, tmp_path: Path
) -> None:
    assert_refused(proreus(*words), 2, *says)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "pods", "--seed", "-1"),
        ("simulate", "pods", "--policy", "kube_plus", "--load-margin", "nan"),
        ("simulate", "pods", "--policy", "kube_plus", "--load-sensitivity", "nan"),
        ("simulate", "pods", "--policy", "kube_plus", "--load-margin", "inf"),
    ],
    ids=" ".join,
)
def test_numbers_that_mean_nothing_are_refused(words: tuple[str, ...], proreus: Proreus) -> None:
    assert_refused(proreus(*words), 2)


def test_a_folder_name_that_no_system_allows_is_refused(proreus: Proreus) -> None:
    assert_refused(proreus("data", "list", "--data", "x" * 300), 2)


def test_a_pattern_is_not_suggested_in_place_of_itself(proreus: Proreus) -> None:
    ended = proreus("simulate", "pods", "--scenario", "openb/*")
    assert_refused(ended, 2, "openb/*")
    assert "did you mean 'openb/*'" not in ended.err


def test_a_near_pod_is_suggested_even_in_a_large_workload(proreus: Proreus, tmp_path: Path) -> None:
    assert proreus("simulate", "pods", "--log", "log.csv").code == 0
    pod = (tmp_path / "log.csv").read_text().splitlines()[-1].partition(",")[0]
    assert_refused(proreus("simulate", "pods", "--explain", f"{pod}x"), 2, f"did you mean '{pod}'?")


@pytest.mark.parametrize(
    "words",
    [
        ("simulate", "pods", "--scenario", "openb/default"),
        ("compare", "pods", "--scenario", "openb/default", "--seeds", "1"),
        ("data", "list"),
        ("bench", "pods"),
    ],
)
def test_a_data_folder_that_is_not_there(
    words: tuple[str, ...], proreus: Proreus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROREUS_DATA", "/no/such/folder")
    assert_refused(proreus(*words), 2, "/no/such/folder: no such folder", "PROREUS_DATA")


def test_a_file_as_data_folder(proreus: Proreus, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_refused(proreus("data", "list", "--data", "file"), 2, "file: ")


def test_a_complaint_stays_one_line_in_a_narrow_terminal(
    proreus: Proreus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    assert_refused(proreus("simulate", "pods", "--format", "nope", "--pods", "x"), 2, "--format")
    assert_refused(proreus("simulate", "pods", "--seed", "y" * 200), 2, "--seed")


def test_names_with_line_breaks_and_markup_stay_one_line(proreus: Proreus) -> None:
    assert_refused(proreus("simulate", "pods", "--policy", "a\nb[/bold]"), 2, "unknown policy", "[/bold]")
    assert_refused(proreus("simulate", "pods", "--format", "manifests", "--pods", "x\ny"), 2, "no such file")


def test_real_processes_end_the_same_way(tmp_path: Path) -> None:
    helped = run_process("--help", cwd=tmp_path)
    assert (helped.code, helped.err) == (0, "") and "usage: proreus" in helped.out
    assert_refused(run_process("simulate", "pods", "--policy", "nope", cwd=tmp_path), 2, "'nope'")
    assert_refused(run_process("data", "list", cwd=tmp_path, PROREUS_DATA="/no/such"), 2, "/no/such")
    assert list(tmp_path.iterdir()) == []


def test_verbs_that_decide_nothing_start_without_what_decides() -> None:
    """Kernels and learners take most of a second to import, and these are asked for again and again."""
    looking = ("apply", "get", "describe", "top", "logs", "exec", "images", "delete", "drain", "cordon")
    modules = [VERBS[verb][0] for verb in (*looking, "uncordon", "down", "records", "data")]
    code = (
        f"import sys, importlib; [importlib.import_module(name) for name in {modules}];"
        "print([name for name in ('numba', 'scipy', 'torch', 'matplotlib') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_each_help_has_an_example_of_its_own(proreus: Proreus) -> None:
    for door in ("rest", "grpc", "all"):
        assert f"Example: proreus serve {door} " in proreus("serve", door, "--help").out
    about = {
        name: proreus("bench", name, "--help").out.splitlines()[2] for name in ("pods", "serve", "clean")
    }
    assert len(set(about.values())) == 3 and "Flask" in about["serve"]
    assert "Flask" in proreus("bench", "--help").out
