"""Where requests come from: recordings, files of one's own, a generator."""
