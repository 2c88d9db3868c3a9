"""What a hostile client or a bad disk may try, and what must not come of it."""
