"""Time: events, what they cost, runs one by one and side by side."""
