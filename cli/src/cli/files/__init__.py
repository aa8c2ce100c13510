"""Reads the files that a user names: dagger files, files of streams, Protobuf files, and queries."""
