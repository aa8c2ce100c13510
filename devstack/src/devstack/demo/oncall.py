"""Messages to on-call in the demo: the lines that the stack's alert receiver prints."""

from cli.errors import RefusedError
from devstack.state import Stack

RECEIVER = "alert-receiver"


class OnCall:
    """Reads the lines as they come."""

    def __init__(self, stack: Stack) -> None:
        self._log = stack.log(RECEIVER)
        self._read = self._log.stat().st_size

    def read_lines(self) -> list[str]:
        """Read the lines that the receiver has printed since the last look, whole ones only.

        Raises RefusedError.
        """
        try:
            with self._log.open("rb") as log:
                log.seek(self._read)
                text = log.read()
        except OSError as error:
            raise RefusedError(f"{self._log} cannot be read: {error.strerror}") from error
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        return whole.decode(errors="replace").splitlines()
