"""Replicas of real services, scaled through KEDA by any controller of the world `inference`."""
