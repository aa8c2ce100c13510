"""The Dagger SQL dialect: parsed, checked against Protobuf schemas, turned into Spark SQL."""
