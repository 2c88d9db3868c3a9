"""A policy that plans: it plays futures for the few places that come into question, and takes the best."""
