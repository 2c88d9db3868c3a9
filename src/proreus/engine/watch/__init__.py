"""The way out of the store: informers for whoever needs to know what stands (scheduler, kubelet, controllers,
overview), a fan-out with bounded queues for watches of the API.
"""
