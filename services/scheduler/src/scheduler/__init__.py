"""Launches, adopts, relaunches and stops the drivers the log asks for."""
