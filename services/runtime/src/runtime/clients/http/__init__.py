"""Requests to HTTP servers, many at once.

eventloop   the loop that they run in, in a thread of this process
client      one server: connections, what it is shown, and what its silence means
posting     batches of rows, and what answers mean
sending     rows in requests, as many at once as the server takes
"""
