"""The real parts that tests talk to, and what a run left out for want of one.

A user without root runs what can run and reads one line at the end: what was not tested, and how to get it.
CI promises all parts (`PROREUS_PARTS=all`): there a test that skips for any reason but one of `BY_NATURE`
fails.

    python3 -m tests.parts              # which are here
    python3 -m tests.parts --install    # Debian, root: install what is missing; 1 where something still is
"""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass

PATHS = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))


@dataclass(frozen=True)
class Part:
    """A program that tests run for real."""

    program: str
    package: str
    """Debian's."""
    variable: str | None = None
    """Of the environment, where another program can be named."""

    def is_here(self) -> bool:
        """Whether it can be run."""
        named = os.environ.get(self.variable, "") if self.variable else ""
        return bool(named) or shutil.which(self.program, path=PATHS) is not None


PARTS = (
    Part("etcd", "etcd-server", "PROREUS_ETCD"),
    Part("containerd", "containerd"),
    Part("runc", "runc"),
    Part("busybox", "busybox-static"),
    Part("kubectl", "kubernetes-client", "PROREUS_KUBECTL"),
    Part("chromium", "chromium"),
    Part("faketime", "faketime"),
    Part("openssl", "openssl"),
    Part("unshare", "util-linux"),
    Part("ip", "iproute2"),
    Part("tar", "tar"),
)
LIBRARIES = {"seccomp": "libseccomp2"}
"""By the name that the linker knows, with Debian's package."""

BY_NATURE = (
    "real traces are not part of the project",
    "needs a real Kubernetes control plane",  # make test-kube has one
    "plain processes need no image",
    "plain processes see the machine's own devices",
    "the same store as runc's",
    "containerd counts its layers every ten seconds only",
    "containerd ends such commands only when they notice",
    "containerd pulls images, and tells of that in its own words",
    "containerd and runc wait for them",
    "containerd's own shims keep its containers",
    "this runtime has no cgroups here",
    "without cgroups nobody tells",
    "root may write anywhere",
    "this machine has a CUDA device",
    "this machine has no CUDA device",
)
"""Beginnings of reasons that hold on a machine with every part."""


def missing_packages() -> list[str]:
    """Debian's names of what is not here."""
    programs = [part.package for part in PARTS if not part.is_here()]
    return programs + [package for name, package in LIBRARIES.items() if not ctypes.util.find_library(name)]


def everything_is_promised() -> bool:
    """Whether a test that misses a part fails."""
    return os.environ.get("PROREUS_PARTS") == "all"


def reason_of(longrepr: object) -> str:
    """Why a report says it was skipped, without pytest's "Skipped: "."""
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return re.sub(r"^Skipped: ", "", str(text))


def may_be_left_out(reason: str) -> bool:
    """Whether a machine with every part skips for that reason, too."""
    return reason.startswith(BY_NATURE)


def left_out(reasons: Counter[str]) -> str:
    """One line for people: how many tests did not run for want of something, and how to get it."""
    wanting = {reason: count for reason, count in reasons.items() if not may_be_left_out(reason)}
    if not wanting:
        return ""
    ways = []
    if packages := missing_packages():
        ways.append(f"install Debian's {' '.join(packages)}")
    if os.geteuid() != 0:
        ways.append("run as root")
    how = " and ".join(ways) or "their reasons stand above"
    return f"not tested here: {sum(wanting.values())} tests that need real parts; to run them, {how}"


def install() -> None:
    """What is missing, where this is a Debian and we are root."""
    packages = missing_packages()
    if not packages or os.geteuid() != 0 or shutil.which("apt-get") is None:
        return
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-qq"], check=False, env=quiet)
    for package in packages:  # one by one: one that cannot be had does not keep the others away
        words = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
        subprocess.run(words, check=False, env=quiet, stdout=subprocess.DEVNULL)


def main(arguments: list[str]) -> int:
    """Say which parts are here; 1 where one is not."""
    if "--install" in arguments:
        install()
    packages = missing_packages()
    for part in PARTS:
        sys.stdout.write(f"{part.program:12} {'here' if part.is_here() else 'missing: ' + part.package}\n")
    for library, package in LIBRARIES.items():
        here = ctypes.util.find_library(library)
        sys.stdout.write(f"lib{library:9} {'here' if here else 'missing: ' + package}\n")
    return 1 if packages else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
