"""The fixed vector of the k8s simulator: models, rule and plugin."""
