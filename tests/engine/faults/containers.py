"""`python -m tests.engine.faults.containers --kills 100 --runtime containerd`: the long run, told as JSON.

Needs root, and what the runtime needs. The exit code is 1 where a law was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from tests.engine.faults.real_cluster import real_cluster
from tests.engine.faults.real_killing import RealFound, kill_everything


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runtime", choices=("process", "runc", "containerd"), default="process")
    chosen = parser.parse_args()

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    async def run(folder: Path) -> RealFound:
        async with real_cluster(folder, chosen.runtime) as cluster:
            found = await kill_everything(cluster, chosen.kills, chosen.seed, say)
            await cluster.end()
            found.shims_ended = cluster.shims_ended()
            return found

    with tempfile.TemporaryDirectory() as name:
        found = asyncio.run(run(Path(name)))
    sys.stdout.write(json.dumps(found.as_dict(), indent=2) + "\n")
    return 1 if found.broken else 0


if __name__ == "__main__":
    sys.exit(main())
