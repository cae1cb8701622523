"""A PostgreSQL server that can encrypt, certificates for it, and a standby of it.

The server that the test group brings is built without TLS. This one is the system's: its programs are looked for where
``BANDOG_TEST_POSTGRES_BINARIES`` says, or else where Debian has them. Where there are none, the tests that need
it are not selected, unless the variable asks for them.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
from steps import wait_until

PASSWORD = "hunter2"  # noqa: S105 - of a server that lives for a test
HOST = "db.example"
"""The name in the server's certificate. No resolver knows it: URLs give the address beside it."""

RULES = """
local      all          all                 trust
host       replication  all   127.0.0.1/32  trust
hostssl    all          tls_only   127.0.0.1/32  scram-sha-256
hostnossl  all          plain_only 127.0.0.1/32  scram-sha-256
hostssl    all          certified  127.0.0.1/32  cert
host       all          anybody    127.0.0.1/32  scram-sha-256
"""


def asked_for() -> str | None:
    """The folder that the variable names."""
    return os.environ.get("BANDOG_TEST_POSTGRES_BINARIES") or None


def binaries() -> Path | None:
    """The folder of the server's programs: the one asked for, or the newest of the system's that is complete."""
    if folder := asked_for():
        return Path(folder)
    found = [
        path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb") if path.with_name("postgres").is_file()
    ]
    return max(found, key=lambda folder: int(folder.parent.name), default=None)


class Certificates:
    """An authority, and what it signs, in a folder. Keys are for their owner alone."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.root = folder / f"{name}.crt"
        self._openssl("req", "-x509", "-subj", f"/CN={name}", *self._new_key(name), "-out", str(self.root))

    def sign(
        self, name: str, *, common_name: str | None = None, also: str = "", days: int = 1, version_1: bool = False
    ) -> tuple[Path, Path]:
        """A certificate that the authority signed, and its key. ``also``: its other names, as openssl spells them."""
        request, certificate = self.folder / f"{name}.csr", self.folder / f"{name}.crt"
        self._openssl("req", "-subj", f"/CN={common_name or name}", *self._new_key(name), "-out", str(request))
        extensions = []
        if not version_1:
            lines = ["basicConstraints=critical,CA:FALSE", f"subjectAltName={also}" if also else ""]
            file = self.folder / f"{name}.ext"
            file.write_text("\n".join(lines))
            extensions = ["-extfile", str(file)]
        authority = ["-CA", str(self.root), "-CAkey", str(self.root.with_suffix(".key")), "-CAcreateserial"]
        self._openssl(
            "x509", "-req", "-in", str(request), *authority, *extensions, "-days", str(days), "-out", str(certificate)
        )
        return certificate, certificate.with_suffix(".key")

    def self_signed(self, name: str, also: str) -> tuple[Path, Path]:
        """A certificate that nobody else signed, as many servers have."""
        certificate = self.folder / f"{name}.crt"
        names = ["-addext", f"subjectAltName={also}"]
        self._openssl("req", "-x509", "-subj", f"/CN={name}", *names, *self._new_key(name), "-out", str(certificate))
        return certificate, certificate.with_suffix(".key")

    def _new_key(self, name: str) -> list[str]:
        key = self.folder / f"{name}.key"
        return ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", str(key)]

    def _openssl(self, *arguments: str) -> None:
        done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)  # noqa: S607
        assert done.returncode == 0, done.stderr
        for key in self.folder.glob("*.key"):
            key.chmod(0o600)


class TlsServer:
    """A server on a port of its own, with its data in a folder that is removed with it."""

    def __init__(self, *, standby_of: TlsServer | None = None, ssl: tuple[Path, Path, Path] | None = None) -> None:
        """``ssl``: its certificate, its key, and the authority of clients' certificates."""
        programs = binaries()
        assert programs is not None
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="bandog-tls-"))
        self._data = self.folder / "data"
        with closing(socket.socket()) as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self._own(self.folder)
        if standby_of is None:
            self._run("initdb", "-D", self._data, "-U", "postgres", "--no-sync", "--locale=C", "-E", "UTF8")
            (self._data / "pg_hba.conf").write_text(RULES)
        else:
            source = f"host={standby_of.folder} port={standby_of.port} user=postgres"
            (standby_of._data / "pg_hba.conf").write_text(RULES + "\nlocal replication all trust\n")
            standby_of.execute("SELECT pg_reload_conf()")
            self._run("pg_basebackup", "-D", self._data, "-d", source, "-R", "--no-sync", "--checkpoint=fast")
        settings = ["fsync=off", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}", "ssl=off"]
        if ssl is not None:
            for name, file in zip(("server.crt", "server.key", "clients.crt"), ssl, strict=True):
                shutil.copy(file, self._data / name)
                (self._data / name).chmod(0o600)
                self._own(self._data / name)
            settings[-1:] = ["ssl=on", "ssl_ca_file=clients.crt"]
        options = [option for setting in settings for option in ("-c", setting)]
        log = (self.folder / "log").open("wb")
        with log:
            self._process = subprocess.Popen(
                [programs / "postgres", "-D", self._data, "-p", str(self.port), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **self._owner(),
            )
        wait_until(self._answers, "the server starts", 60)

    def execute(
        self, statement: str, parameters: tuple[Any, ...] = (), database: str = "postgres"
    ) -> list[tuple[Any, ...]]:
        """Run SQL as the superuser, over the socket."""
        address = f"host={self.folder} port={self.port} user=postgres dbname={database}"
        with closing(psycopg.connect(address, autocommit=True)) as connection:
            cursor = connection.execute(statement.encode(), parameters or None)
            return cursor.fetchall() if cursor.description else []

    def close(self) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.wait(60)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _answers(self) -> bool:
        assert self._process.poll() is None, (self.folder / "log").read_text()
        with suppress(psycopg.OperationalError):
            return self.execute("SELECT 1") == [(1,)]
        return False

    def _run(self, program: str, *arguments: str | Path) -> None:
        done = subprocess.run(
            [self._programs / program, *arguments], capture_output=True, text=True, check=False, **self._owner()
        )
        assert done.returncode == 0, done.stderr

    # The server refuses to run as root.

    def _owner(self) -> dict[str, Any]:
        if os.geteuid() != 0:
            return {}
        return {"user": "postgres", "group": pwd.getpwnam("postgres").pw_gid, "extra_groups": [], "cwd": self.folder}

    def _own(self, path: Path) -> None:
        if os.geteuid() == 0:
            shutil.chown(path, "postgres", "postgres")


def url(server: TlsServer | int, user: str = "anybody", host: str = HOST, **parameters: Any) -> str:
    """A URL of the database that tests use, with the address beside the host's name."""
    port = server if isinstance(server, int) else server.port
    parameters.setdefault("hostaddr", ",".join("127.0.0.1" for _ in host.split(",")))
    query = "&".join(f"{name}={quote(str(value))}" for name, value in parameters.items())
    return f"postgresql://{user}:{PASSWORD}@{host}/jobs?port={port}&{query}"
