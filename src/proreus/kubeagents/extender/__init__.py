"""kube-scheduler's HTTP extender: a policy has its say, and kube-scheduler keeps the last word."""
