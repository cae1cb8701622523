"""PgBouncer in front of a server, handing sessions on after every transaction."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs, urlsplit, urlunsplit

from processes import PATIENCE, eventually


class Pooler:
    """A process of its own, with so many connections to the server."""

    def __init__(self, url: str, size: int = 2) -> None:
        binary = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
        assert binary, "pgbouncer was not found: `apt-get install pgbouncer`, or leave BANDOG_TEST_PGBOUNCER out"
        parts = urlsplit(url)
        host = parse_qs(parts.query).get("host", [parts.hostname])[0]
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            self.port = free.getsockname()[1]
        user, database = parts.username or "postgres", parts.path.removeprefix("/")
        # Of its own, since whoever runs it may not enter those of the tests.
        self.folder = Path(tempfile.mkdtemp(prefix="bandog-pgbouncer-"))
        self.folder.chmod(0o755)
        self.log = self.folder / "log"
        configuration = self.folder / "pgbouncer.ini"
        configuration.write_text(
            f"""[databases]
{database} = host={host} port={parts.port or 5432} user={user} dbname={database}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {self.port}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 500
"""
        )
        self.url = urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{self.port}", query=""))
        self._command = [binary, str(configuration)]
        if os.geteuid() == 0:
            # It refuses to run as root, and has to be somebody who may enter the folder of the server's socket.
            owner = Path(host).owner() if host and host.startswith("/") else "postgres"
            self._command[1:1] = ["-u", owner]
        self.start()

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

        def answers() -> bool:
            assert self._process.poll() is None, self.log.read_text()
            with closing(socket.socket()) as probe:
                return probe.connect_ex(("127.0.0.1", self.port)) == 0

        eventually(answers, "the pooler is up")

    def kill(self) -> None:
        """As a crash of it: every client's connection is reset."""
        self._process.kill()
        self._process.wait(PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.kill()
        shutil.rmtree(self.folder)
