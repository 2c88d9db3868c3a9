"""The command line: one verb a file, `main.py` names them, `arguments.py` parses them all alike."""
