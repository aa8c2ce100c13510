"""Send many requests at once to HTTP servers.

connection  keeps connections to one server open, and maps its failures to errors
oauth2      requests tokens
caller      authenticates requests
client      sends requests to one server, within its limits
posting     posts batches of rows, and interprets answers
"""
