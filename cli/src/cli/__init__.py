"""The daggers command."""

import os

# gRPC reads it when it is imported. Its own log would stand between our lines; what it says of an error, the
# error says too.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # noqa: TID251 - gRPC has no other way to be told
