"""`python -m tests.engine.faults.long --kills 200`: the long run, told as JSON.

The exit code is 1 where a law was broken.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from tests.engine.faults.killing import kill_often
from tests.engine.store.etcd_servers import etcd_cluster


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--store", choices=("sqlite", "etcd"), default="sqlite")
    chosen = parser.parse_args()

    def say(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.store == "sqlite":
            found = asyncio.run(kill_often(folder, (), chosen.kills, chosen.seed, say))
        else:
            with etcd_cluster(folder / "etcd") as cluster:
                store = ("--store", f"etcd://{cluster.endpoints}")
                found = asyncio.run(kill_often(folder, store, chosen.kills, chosen.seed, say))
    sys.stdout.write(json.dumps(found.as_dict(), indent=2) + "\n")
    return 1 if found.broken else 0


if __name__ == "__main__":
    sys.exit(main())
