"""A containerd of the tests' own: root, state and socket in a folder, no network plugin, gone at the end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from proreus.engine.runtimes.images.repack import repack
from tests.engine.runtimes.archives import Archive, busybox_layer
from tests.engine.runtimes.leftovers import mounts, processes

PAUSE = "localhost/pause:1"
_CONFIG = """
version = 2
root = "{folder}/root"
state = "{folder}/state"
[grpc]
  address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = "{runtime}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{folder}/cni"
    conf_dir = "{folder}/cni"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
"""


class Daemon:
    """One containerd, which may be killed and started again."""

    def __init__(self, folder: Path, runtime: str = "runc") -> None:
        self.folder, self.socket = folder, folder / "containerd.sock"
        (folder / "config.toml").write_text(_CONFIG.format(folder=folder, pause=PAUSE, runtime=runtime))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the daemon that runs."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Until it answers."""
        command = ["containerd", "--config", str(self.folder / "config.toml")]
        with (self.folder / "containerd.log").open("ab") as log:
            process = self._process = subprocess.Popen(command, stdout=log, stderr=log)
        end = time.monotonic() + 60
        while self.ctr("version", check=False):
            text = (self.folder / "containerd.log").read_text()[-2000:]
            assert process.poll() is None and time.monotonic() < end, text
            time.sleep(0.1)

    def ctr(self, *words: str, check: bool = True) -> int:
        """containerd's own tool."""
        address = ["--address", str(self.socket), "--namespace", "k8s.io"]
        return subprocess.run(["ctr", *address, *words], capture_output=True, check=check).returncode

    def ctr_says(self, *words: str) -> str:
        """What containerd's own tool prints."""
        address = ["--address", str(self.socket), "--namespace", "k8s.io"]
        return subprocess.run(["ctr", *address, *words], capture_output=True, check=True, text=True).stdout

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def hang(self) -> None:
        """It answers nobody, and nobody is told."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """After `hang`."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def stop(self) -> None:
        """As an administrator does."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(30)


@contextmanager
def containerd(folder: Path, busybox: Path, runtime: str = "runc") -> Iterator[Daemon]:
    """A daemon that answers and holds the image of sandboxes; runtime: by which it starts them."""
    daemon = Daemon(folder, runtime)
    daemon.start()
    try:
        config = {"Entrypoint": ["/bin/sleep", "100000000"]}
        made = Archive([busybox_layer(busybox)], config, name=PAUSE).write(folder / "pause.tar")
        repack(made, "", folder / "checked.tar", 1 << 30)
        daemon.ctr("images", "import", str(folder / "checked.tar"))
        yield daemon
    finally:
        daemon.stop()
        _sweep(folder)


def _sweep(folder: Path) -> None:
    """What a test that failed has left: its mounts would keep later runs from tidying the folder."""
    for line in processes(str(folder)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(line.partition(":")[0]), signal.SIGKILL)
    for line in reversed(mounts(str(folder))):
        subprocess.run(["umount", "--lazy", line.split()[1]], check=False)
