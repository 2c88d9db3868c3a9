"""From an archive to three containers under their limits and back to nothing, the same with every runtime."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="a cluster needs the extra `engine`")
pytest.importorskip("httpx", reason="asking a cluster needs the extra `engine`")

import httpx

from tests.engine.containers.sites import Site, alive, site, until
from tests.engine.runtimes.archives import Archive, busybox_archive, entry, tar_of
from tests.engine.runtimes.benches import IMAGE
from tests.engine.runtimes.conftest import found_busybox
from tests.engine.runtimes.containerds import Daemon, containerd
from tests.engine.store.etcd_servers import etcd_cluster

EXAMPLE = Path(__file__).parents[3] / "examples" / "engine" / "web.yaml"
MEMORY, CPU = 48 << 20, 200
"""Bytes, and thousandths of a core."""
MANIFEST = f"""
apiVersion: v1
kind: ConfigMap
metadata: {{name: words}}
data: {{greeting: hello from a ConfigMap}}
---
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 5
      containers:
      - name: main
        image: {IMAGE}
        command: [/bin/sh, -c, "trap 'exit 0' TERM; echo $GREETING; sleep 3600 & wait"]
        env: [{{name: GREETING, valueFrom: {{configMapKeyRef: {{name: words, key: greeting}}}}}}]
        resources:
          requests: {{cpu: 10m, memory: 8Mi}}
          limits: {{cpu: {CPU}m, memory: "{MEMORY}"}}
"""


class SetUp:
    """A cluster with one of the runtimes, and what is known of it from outside."""

    def __init__(self, runtime: str, made: Site, daemon: Daemon | None = None) -> None:
        self.runtime, self.site, self.daemon = runtime, made, daemon

    @property
    def in_cgroups(self) -> bool:
        """Whether limits are the kernel's matter; without root, plain processes have rlimits alone."""
        return os.geteuid() == 0

    def limits(self) -> list[tuple[int, int]]:
        """Memory and CPU of every container that has a limit, as the kernel has them."""
        limits = []
        for name, folder in self.site.cgroups("memory").items():
            memory = _first(folder, "memory.limit_in_bytes", "memory.max")
            if memory == str(MEMORY):
                cpu = self.site.cgroups("cpu")[name]
                quota = _first(cpu, "cpu.cfs_quota_us", "cpu.max").split()[0]
                limits.append((int(memory), int(quota)))
        return limits

    def first_processes(self) -> list[int]:
        """Of each container the process that its end depends on."""
        if not self.in_cgroups:
            return _marked(str(self.site.node_root))
        with_limit = {
            name: folder
            for name, folder in self.site.cgroups("memory").items()
            if _first(folder, "memory.limit_in_bytes", "memory.max") == str(MEMORY)
        }
        procs = [folder / "cgroup.procs" for folder in with_limit.values()]
        return [
            min(int(line) for line in path.read_text().split()) for path in procs if path.read_text().strip()
        ]


def _first(folder: Path, *names: str) -> str:
    return next((folder / name).read_text().strip() for name in names if (folder / name).exists())


def _marked(mark: str) -> list[int]:
    """Shells of containers that are plain processes."""
    found = []
    for entry_ in Path("/proc").iterdir():
        if entry_.name.isdigit():
            try:
                words = (entry_ / "cmdline").read_bytes()
                environment = (entry_ / "environ").read_bytes()
            except OSError:
                continue
            if mark.encode() in environment and words.startswith(b"/bin/sh"):
                found.append(int(entry_.name))
    return found


@pytest.fixture(params=["sqlite-process", "sqlite-runc", "etcd-containerd"])
def set_up(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SetUp]:
    kind, runtime = request.param.split("-")
    with ExitStack() as stack:
        flags, daemon = ["--runtime", runtime], None
        if runtime == "containerd":
            busybox = found_busybox("containerd", "ctr", "runc")
            short = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="c-")))  # for its sockets
            daemon = stack.enter_context(containerd(short, busybox))
            flags += ["--socket", str(daemon.socket)]
        elif runtime == "runc":
            found_busybox("runc")
        if kind == "etcd":
            cluster = stack.enter_context(etcd_cluster(tmp_path / "etcd"))
            flags += ["--store", f"etcd://{cluster.endpoints}"]
        yield SetUp(runtime, stack.enter_context(site(tmp_path / "state", *flags)), daemon)


def test_three_containers_run_under_their_limits_come_back_and_leave_nothing(
    set_up: SetUp, tmp_path: Path
) -> None:
    made = set_up.site
    assert made.cluster is not None and made.cluster.ready["runtime"] == set_up.runtime
    token = _only_who_has_the_token_is_answered(made)
    if set_up.runtime == "process":
        _the_example_serves_without_an_image(made)
    _import(set_up, tmp_path)
    (tmp_path / "web.yaml").write_text(MANIFEST)
    made.run("apply", "-f", str(tmp_path / "web.yaml"))
    until(lambda: len(made.running("web")) == 3, lambda: made.run("get", "events"))
    if set_up.in_cgroups:
        assert set_up.limits() == [(MEMORY, CPU * 100)] * 3
    _logs_and_commands(made)
    _a_killed_one_comes_back(set_up)
    _ending_leaves_them_running(set_up)
    assert _only_who_has_the_token_is_answered(made) == token, "it is made once"
    _scaling_and_deleting_leave_nothing(set_up, tmp_path)


def _only_who_has_the_token_is_answered(made: Site) -> str:
    """Real pods are commands of this user, and every user of a machine reaches loopback."""
    assert made.cluster is not None
    api = made.cluster.ready["api"]
    for method, path in (
        ("GET", "/api/v1/pods"),
        ("POST", "/api/v1/namespaces/default/pods"),
        ("GET", "/v1/events"),
    ):
        assert httpx.request(method, f"{api}{path}").status_code == 401
    for secret in (made.folder / "tokens", made.folder / "kubeconfig"):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    token = (made.folder / "tokens").read_text().splitlines()[-1].partition(",")[0]
    with httpx.stream("GET", f"{api}/v1/events", headers={"authorization": f"Bearer {token}"}) as answer:
        assert answer.status_code == 200  # as the status page asks that was opened with #token=
    return token


def _the_example_serves_without_an_image(made: Site) -> None:
    """What a new user with one machine and nothing else sees."""
    made.run("apply", "-f", str(EXAMPLE))
    until(lambda: len(made.running("web")) == 3, lambda: made.run("get", "events"))
    until(lambda: "Serving HTTP on 127.0.0.1 port" in made.run("logs", "deployment/web"))
    address = made.run("logs", "deployment/web").partition("(")[2].partition(")")[0]
    assert httpx.get(address).status_code == 200
    until(lambda: '"GET / HTTP/1.1" 200' in made.run("logs", "deployment/web"))
    made.run("delete", "-f", str(EXAMPLE))
    until(lambda: made.pods("web") == [])


def _import(set_up: SetUp, folder: Path) -> None:
    """An image of busybox; plain processes take the configuration of any."""
    archive = folder / "image.tar"
    if set_up.runtime == "process":
        Archive([tar_of([(entry("etc/motd"), b"hello\n")])]).write(archive)
    else:
        busybox_archive(found_busybox(), archive)
    assert IMAGE in set_up.site.images("import", str(archive))
    until(lambda: IMAGE in set_up.site.images("list"))
    assert set_up.site.cluster is not None
    assert IMAGE in set_up.site.run("describe", "node", set_up.site.cluster.ready["node"])


def _logs_and_commands(made: Site) -> None:
    assert made.run("logs", "deployment/web") == "hello from a ConfigMap\n"
    assert made.run("exec", "deployment/web", "--", "/bin/sh", "-c", "echo in; echo $GREETING") == (
        "in\nhello from a ConfigMap\n"
    )
    kubectl = shutil.which("kubectl")
    if kubectl is not None:
        asked = (kubectl, "--kubeconfig", str(made.folder / "kubeconfig"))
        assert "hello from a ConfigMap\n" in _said(*asked, "logs", "deployment/web")
        names = "jsonpath={.items[*].status.images[*].names}"
        assert IMAGE in _said(*asked, "get", "nodes", "-o", names)


def _said(*words: str) -> str:
    ended = subprocess.run(words, capture_output=True, check=False, text=True)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def _a_killed_one_comes_back(set_up: SetUp) -> None:
    before = set_up.first_processes()
    assert len(before) == 3
    os.kill(before[0], signal.SIGKILL)
    made = set_up.site
    until(lambda: sorted(made.running("web").values()) == [0, 0, 1], lambda: made.run("get", "pods"))
    after = set_up.first_processes()
    assert len(after) == 3 and set(before[1:]) <= set(after)


def _ending_leaves_them_running(set_up: SetUp) -> None:
    made, processes = set_up.site, set_up.first_processes()
    names = made.running("web")
    assert "3 containers go on running" in made.end(signal.SIGINT)
    assert all(alive(pid) for pid in processes)
    made.up()
    until(lambda: made.running("web") == names, lambda: made.run("get", "pods"))
    assert sorted(set_up.first_processes()) == sorted(processes)


def _scaling_and_deleting_leave_nothing(set_up: SetUp, folder: Path) -> None:
    made = set_up.site
    (folder / "web.yaml").write_text(MANIFEST.replace("replicas: 3", "replicas: 1"))
    made.run("apply", "-f", str(folder / "web.yaml"))
    until(lambda: len(made.pods("web")) == 1, lambda: made.run("get", "pods"))
    until(lambda: len(set_up.first_processes()) == 1)
    made.run("delete", "-f", str(folder / "web.yaml"))
    until(lambda: made.pods("web") == [], lambda: made.run("get", "pods"))
    until(lambda: not set_up.first_processes() and not list((made.node_root / "pods").iterdir()))
    until(lambda: not made.cgroups("memory"))
    if set_up.daemon is not None:
        assert set_up.daemon.ctr_says("containers", "list", "--quiet") == ""
        assert set_up.daemon.ctr_says("tasks", "list", "--quiet") == ""
    made.images("remove", IMAGE)
    until(lambda: IMAGE not in made.images("list"))
