"""The gRPC door: requests in, answers out, a projection to read from."""
