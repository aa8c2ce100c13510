"""The PySpark job of one dagger: Protobuf Kafka streams, SQL, sinks."""
