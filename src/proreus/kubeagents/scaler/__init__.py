"""Replicas of Deployments by any controller of the world `inference`, in clusters without KEDA."""
