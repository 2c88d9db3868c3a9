"""Images that say of themselves that they do not exist: simulated nodes hold every other one.

By convention an image is missing whose registry is below `.invalid`, the domain that is reserved for names
that must not resolve, or whose tag is `404`.
"""

from __future__ import annotations

from msgspec import structs

from proreus.engine.runtimes import container_events
from proreus.engine.runtimes.protocol import ContainerReport

BACK_OFF_SECONDS = 10.0
_TAG = "404"


def is_missing(image: str) -> bool:
    """Whether the name says that there is no such image."""
    host, _, path = image.partition("/")
    domain = host.partition(":")[0] if path else ""
    tag = image.rsplit("/", 1)[-1].partition("@")[0].partition(":")[2]
    return domain == "invalid" or domain.endswith(".invalid") or tag == _TAG


def not_pulled(report: ContainerReport, image: str) -> ContainerReport:
    """The report of a container whose image could not be pulled just now."""
    why = f'failed to resolve reference "{image}": not found'
    failed = structs.replace(report, reason="ErrImagePull", message=why)
    return failed.with_notice(container_events.pulling(image)).with_notice(
        container_events.pull_failed(image, why)
    )


def backing_off(report: ContainerReport, image: str) -> ContainerReport:
    """The same while it waits before it would be tried again."""
    waiting = structs.replace(report, reason="ImagePullBackOff", message=f'Back-off pulling image "{image}"')
    return waiting.with_notice(container_events.pull_backing_off(image))
