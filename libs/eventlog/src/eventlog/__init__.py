"""The log: append, replay and follow records of protobuf events."""
