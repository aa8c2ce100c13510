"""The daggers command, and the embedded stack behind daggers local."""
