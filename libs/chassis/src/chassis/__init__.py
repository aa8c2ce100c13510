"""What every service stands on: settings, logging, metrics, gRPC interceptors, shutdown."""
