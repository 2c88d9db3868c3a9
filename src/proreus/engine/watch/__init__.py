"""Informers: a list, then a watch, of each kind once a process; controllers, scheduler, kubelet and
API watches subscribe.
"""
