"""What a real kube-apiserver and kube-scheduler judge: `make test-kube`."""
