"""The command line, called as a user calls it: in this process, and a few times as a real one."""
