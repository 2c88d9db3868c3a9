"""Text, tables, JSON and YAML whose errors name file, line and field; data folders."""
