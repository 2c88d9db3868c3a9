"""The SchedulingAgent: gives waiting pods their nodes, by the policy that their schedulerName stands for."""
