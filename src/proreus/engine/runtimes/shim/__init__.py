"""The shim: one small process a container, so that containers outlive the agent."""
