"""The SchedulingAgent in somebody else's cluster: it decides for the pods that name it, or only watches."""
