"""The world of virtual machines: servers with two NUMA nodes, machines that come, run, wait and leave."""
