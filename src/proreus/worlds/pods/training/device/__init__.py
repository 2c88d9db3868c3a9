"""Lanes of pods in torch: thousands of episodes on one device, without a word to the host inside a step."""
