"""What a hostile client may try, each beside an honest one whose answers are timed."""
