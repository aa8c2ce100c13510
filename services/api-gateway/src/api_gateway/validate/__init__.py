"""Judges what a request asks for, all that is wrong at once, and makes of it the event for the log."""
