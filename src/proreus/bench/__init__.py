"""Speed claims, each measured beside its peer in the same run. `proreus bench NAME` prints them."""
