"""The gRPC API: requests in, answers out, a projection to read from."""
