"""The public datasets that are work for this world."""

from __future__ import annotations

from types import MappingProxyType

from proreus.data.catalogue import Dataset

DATASETS: MappingProxyType[str, Dataset] = MappingProxyType(
    {
        "traces": Dataset(
            what="recorded workflows: WfInstances (WfFormat) and Pegasus profiles (DAX)",
            licence="WfInstances LGPL-3.0; DAX: Globus Toolkit Public License",
            files=("workflows/wfinstances/LICENSE", "workflows/dax/HEFT_paper.xml"),
            home="https://github.com/wfcommons/WfInstances and https://github.com/WorkflowSim/WorkflowSim-1.0",
        )
    }
)
