"""After the warm-up no kernel that the scheduler calls is compiled, or loaded, in the event loop."""

from __future__ import annotations

import importlib
import pkgutil

from proreus.engine import scheduler
from proreus.engine.scheduler.warm_up import warm_up_scheduling
from proreus.kernels.callees import Entry


def test_every_kernel_that_the_scheduler_calls_is_warm() -> None:
    """An hour of fuzzing had the loop held for 137 ms, when the first pod left a node and others waited."""
    warm_up_scheduling()
    called = {
        f"{module.name}.{name}": kernel
        for module in pkgutil.iter_modules(scheduler.__path__, f"{scheduler.__name__}.")
        for name, kernel in vars(importlib.import_module(module.name)).items()
        if isinstance(kernel, Entry)
    }
    assert len(called) >= 4
    assert [name for name, kernel in called.items() if not kernel.overloads] == []
