"""What stands where a server was: it takes connections, hangs up at once, and notes who came when."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import Self


class Refusing:
    """A socket in a server's folder."""

    def __init__(self, folder: Path, port: int = 5432) -> None:
        self.path = folder / f".s.PGSQL.{port}"
        self.path.unlink(missing_ok=True)
        self.calls: defaultdict[int, list[float]] = defaultdict(list)
        """By process: when it tried."""
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self._thread = threading.Thread(target=self._serve, name="refusing")
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                caller, _ = self._listener.accept()
                with caller:
                    credentials = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
                    self.calls[struct.unpack("3i", credentials)[0]].append(time.monotonic())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        self.path.unlink(missing_ok=True)
