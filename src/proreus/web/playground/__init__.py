"""Simulations for whoever looks: in processes of their own, few at a time, of bounded length."""
