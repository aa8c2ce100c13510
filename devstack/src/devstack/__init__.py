"""The embedded stack: a real Kafka, a real InfluxDB and the services, on loopback, in one state directory."""
