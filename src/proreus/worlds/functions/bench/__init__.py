"""Speed claims of the world `functions`, and the peer that they are held against."""
