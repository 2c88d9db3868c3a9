"""What a world promises, and what every verb may therefore ask of it."""
