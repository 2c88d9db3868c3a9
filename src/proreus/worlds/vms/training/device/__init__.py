"""Runs of virtual machines in torch: thousands of clusters on one device, in step with no one."""
