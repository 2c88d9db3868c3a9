"""What stands in every namespace: its default ServiceAccount, and the certificate of the cluster."""
