"""Requests to HTTP servers, many at once.

client      one server: connections, what it is shown, and what its silence means
posting     batches of rows, and what answers mean
"""
