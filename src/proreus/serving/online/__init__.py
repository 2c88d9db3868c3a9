"""Learning from reported outcomes while serving."""
