"""Connect the runtime to the world outside: Kafka, the quarantine, servers of sinks, secrets."""
