"""Base of every service: settings, logging, errors, gRPC interceptors, shutdown."""
