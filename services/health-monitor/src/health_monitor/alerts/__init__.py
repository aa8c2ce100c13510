"""Decides when an alert fires and resolves, and writes the log of alerts as the monitor that leads."""
