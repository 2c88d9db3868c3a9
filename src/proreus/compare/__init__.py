"""Policies x scenarios x seeds -> tables with intervals, plots, a report. `proreus.compare(...)` runs one."""

from proreus.callable_modules import make_callable

make_callable(__name__)
