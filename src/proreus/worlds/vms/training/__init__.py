"""How policies that place virtual machines are trained and judged."""
