"""What another policy would have made of a cluster's own past: imported, replayed, told in dollars."""
