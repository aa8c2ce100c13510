"""Requests to HTTP servers, many at once.

connection  one server: connections, and what its silence means
oauth2      tokens that are asked for
caller      what a server is shown of who calls
client      one server, as batches need it
posting     batches of rows, and what answers mean
"""
