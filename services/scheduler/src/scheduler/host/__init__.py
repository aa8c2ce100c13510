"""Answers over gRPC what this host alone knows: logs, rows, samples, tests of sinks, forecasts, previews."""
