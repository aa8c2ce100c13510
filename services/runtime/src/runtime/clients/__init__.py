"""How the runtime reaches what is outside: Kafka, the quarantine, secrets."""
