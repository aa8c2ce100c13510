"""What every service stands on: settings, logging, errors, gRPC interceptors, shutdown."""
