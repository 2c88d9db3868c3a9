"""What happens to containers, in a kubelet's words."""

from __future__ import annotations

from proreus.engine.runtimes.protocol import Notice


def pulling(image: str) -> Notice:
    """It is being fetched."""
    return Notice("Normal", "Pulling", f'Pulling image "{image}"')


def pulled(image: str, seconds: float, size: int) -> Notice:
    """It was fetched."""
    took = f"{seconds:.3f}s".replace(".000s", "s")
    message = f'Successfully pulled image "{image}" in {took} ({took} including waiting).'
    return Notice("Normal", "Pulled", f"{message} Image size: {size} bytes.")


def present(image: str) -> Notice:
    """It was there."""
    return Notice("Normal", "Pulled", f'Container image "{image}" already present on machine')


def pull_failed(image: str, why: str) -> Notice:
    """It could not be fetched."""
    return Notice("Warning", "Failed", f'Failed to pull image "{image}": {why}')


def pull_backing_off(image: str) -> Notice:
    """It is tried again later."""
    return Notice("Normal", "BackOff", f'Back-off pulling image "{image}"')


def created(container: str) -> Notice:
    """It stands, and has not begun."""
    return Notice("Normal", "Created", f"Created container: {container}")


def started(container: str) -> Notice:
    """It has begun."""
    return Notice("Normal", "Started", f"Started container {container}")


def failed(why: str) -> Notice:
    """It cannot be started as things are."""
    return Notice("Warning", "Failed", f"Error: {why}")


def mount_failed(volume: str, why: str) -> Notice:
    """A volume does not stand."""
    return Notice("Warning", "FailedMount", f'MountVolume.SetUp failed for volume "{volume}" : {why}')


def sandbox_failed(why: str) -> Notice:
    """The pod has no place to run in."""
    return Notice("Warning", "FailedCreatePodSandBox", f"Failed to create pod sandbox: {why}")
