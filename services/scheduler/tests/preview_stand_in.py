"""A small program that answers as a process that previews does, for tests of who starts it.

What it does stands in the query: "rows", "hang", "stubborn", "die", "fill".
"""

import os
import socket
import sys
import time

from daggers.v1 import gateway_pb2, host_pb2

server = socket.socket(socket.AF_UNIX)
server.bind("preview.sock")
server.listen(1)


def tell(connection: socket.socket, step: gateway_pb2.PreviewDaggerResponse) -> None:
    message = step.SerializeToString()
    connection.sendall(b"P" + len(message).to_bytes(4, "big") + message)


while True:
    connection, _ = server.accept()
    with connection, connection.makefile("rb") as source:
        asked = host_pb2.PreviewJob.FromString(source.read(int.from_bytes(source.read(4), "big")))
        verb = asked.job.spec.sql
        tell(connection, gateway_pb2.PreviewDaggerResponse(progress=gateway_pb2.PreviewProgress(records=1)))
        if verb == "die":
            sys.exit(3)
        if verb == "stubborn":
            time.sleep(600)
        if verb == "fill":  # small files: no limit of one file's size helps
            for number in range(64):
                with open(f"tmp/{number}", "wb") as file:  # noqa: PTH123 - a stand-in has few imports
                    file.write(b"x" * 65536)
        if verb in ("hang", "fill"):
            connection.recv(1)  # who hangs up has ended it
            continue
        done = gateway_pb2.PreviewDone(records=os.getpid(), rows=len(asked.job.sinks))
        tell(connection, gateway_pb2.PreviewDaggerResponse(done=done))
