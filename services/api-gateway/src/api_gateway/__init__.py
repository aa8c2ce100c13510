"""The gRPC API: appends requests to the log, and answers from the log's fold and its projection."""
