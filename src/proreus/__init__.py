"""Proreus: learned scheduling and scaling for clusters.

One loop (observe, decide, act, measure, learn) over worlds that range from a
simulator on a laptop to a real Kubernetes cluster. The folders are the
architecture; `docs/architecture.md` follows one pod through them.
"""

from proreus.version import __version__

__all__ = ["__version__"]
