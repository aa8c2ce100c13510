"""Messages with a field of a later version, for tests."""

from google.protobuf.message import Message

NEWER = b"\xf8\xf0\x04\x01"


def extend(message: Message) -> bytes:
    return message.SerializeToString() + NEWER
