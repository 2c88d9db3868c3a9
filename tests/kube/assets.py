"""A real Kubernetes control plane for tests: kube-apiserver and kube-scheduler, built once from source.

Debian ships neither as a program, but the source package `kubernetes` (1.20.2) holds both, with all that it
needs. They are built into a folder outside the project and stay there; etcd and kubectl are Debian's.

    make kube-assets                     # about nine minutes on two cores, once
    python3 -m tests.kube.assets --path  # the folder: what KUBEBUILDER_ASSETS has to name
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

BUILT = ("kube-apiserver", "kube-scheduler")
LINKED = ("etcd", "kubectl")
TOOLS = {"go": "golang-go", "dpkg-source": "dpkg-dev", "patch": "patch", "rsync": "rsync", "make": "make"}
"""What the build runs, with Debian's package of each."""
HOW = "make kube-assets (Debian, about nine minutes once), then make test-kube, or set KUBEBUILDER_ASSETS"


def assets_folder() -> Path:
    """Where the programs are, or will be."""
    if named := os.environ.get("KUBE_ASSETS"):
        return Path(named)
    return Path.home() / ".cache" / "proreus" / "kube-assets"


def is_complete(folder: Path) -> bool:
    """Whether everything is there and runs."""
    return all(
        _runs(folder / name, "version" if name == "kubectl" else "--version") for name in BUILT + LINKED
    )


def build(folder: Path) -> None:
    """Get Debian's source package, build it, keep the programs."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [name for name in BUILT if not _runs(folder / name, "--version")]
    if missing:
        _install_tools()
        work = folder / "build"
        shutil.rmtree(work, ignore_errors=True)
        for name, program in _compiled(_source(work), missing).items():
            # Whole or not at all: whoever looks meanwhile finds no half of a program.
            shutil.copy2(program, folder / f".{name}")
            (folder / f".{name}").replace(folder / name)
        shutil.rmtree(work, ignore_errors=True)
    for name in LINKED:
        found = shutil.which(name)
        if found and not (folder / name).exists():
            (folder / name).symlink_to(found)


def source_entries(text: str, suffix: str) -> str:
    """A list of binary packages of apt as one of their sources; both formats."""
    if suffix == ".sources":
        return re.sub(r"(?m)^Types:.*$", "Types: deb-src", text)
    return re.sub(r"(?m)^\s*deb\s", "deb-src ", text)


def _runs(program: Path, word: str) -> bool:
    if not program.exists():
        return False
    words = [str(program), word, *(["--client"] if word == "version" else [])]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


def _install_tools() -> None:
    packages = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if packages:
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(["apt-get", "update", "-qq"], check=False, env=quiet)
        words = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages]
        subprocess.run(words, check=True, env=quiet, stdout=subprocess.DEVNULL)


def _source(work: Path) -> Path:
    """The unpacked source package, by lists of apt of our own: the machine's stay as they are."""
    parts = work / "apt" / "parts"
    parts.mkdir(parents=True)
    (work / "apt" / "lists" / "partial").mkdir(parents=True)
    system = Path("/etc/apt")
    for entry in (system / "sources.list", *sorted((system / "sources.list.d").glob("*"))):
        if entry.is_file() and entry.suffix in (".list", ".sources"):
            (parts / entry.name).write_text(source_entries(entry.read_text(), entry.suffix))
    own = [
        "-o", "Dir::Etc::sourcelist=/dev/null", "-o", f"Dir::Etc::sourceparts={parts}",
        "-o", f"Dir::State::lists={work / 'apt' / 'lists'}", "-o", "APT::Sandbox::User=root",
    ]  # fmt: skip
    subprocess.run(["apt-get", *own, "update", "-qq"], check=False)
    words = ["apt-get", *own, "source", "-qq", "--download-only", "kubernetes"]
    subprocess.run(words, check=True, cwd=work)
    (described,) = work.glob("kubernetes_*.dsc")
    words = ["dpkg-source", "--extract", described.name, "kubernetes"]
    subprocess.run(words, check=True, cwd=work, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return work / "kubernetes"


def _compiled(source: Path, names: list[str]) -> dict[str, Path]:
    """The programs, made by the package's own Makefile, which generates code first; it wants a GOPATH."""
    place = source / ".go" / "src" / "k8s.io"
    place.mkdir(parents=True)
    (place / "kubernetes").symlink_to(source)
    environment = {
        **os.environ,
        "GOPATH": str(source / ".go"),
        "GOCACHE": str(source.parent / "gocache"),
        "HOME": str(source.parent),
        "CGO_ENABLED": "0",
    }
    words = ["make", "WHAT=" + " ".join(f"cmd/{name}" for name in names)]
    subprocess.run(words, check=True, cwd=source, env=environment)
    return {name: source / "_output" / "bin" / name for name in names}


def main(arguments: list[str]) -> int:
    """Build what is missing and say where it is; 1 where that cannot be done here."""
    folder = assets_folder()
    if "--path" not in arguments and not is_complete(folder):
        if shutil.which("apt-get") is None:
            sys.stderr.write("kube-assets: needs a Debian, whose source package is built; no apt-get here\n")
            return 1
        try:
            build(folder)
        except (subprocess.CalledProcessError, OSError) as error:
            sys.stderr.write(f"kube-assets: {error}\n")
            return 1
        if not is_complete(folder):
            sys.stderr.write(f"kube-assets: {folder} lacks one of {', '.join(BUILT + LINKED)}\n")
            return 1
    sys.stdout.write(f"{folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
