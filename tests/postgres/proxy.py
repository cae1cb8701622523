"""A way to the server that a test can break: it passes, stalls, swallows or cuts what goes through it.

``stall`` holds everything back and delivers it later, as a network does that loses packets for a while; ``swallow``
loses it for good and leaves its connections dead without a word, as a firewall that forgot them; ``cut`` resets them
and takes no others. ``mute`` stalls the server's answers alone. ``mend`` lets pass what comes from then on.
"""

from __future__ import annotations

import socket
import struct
import threading
from contextlib import suppress
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit, urlunsplit

RESET = struct.pack("ii", 1, 0)


class Proxy:
    """A port of this machine that leads to a server, given as its URL."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        folder = parse_qs(parts.query).get("host", [""])[0] or "/var/run/postgresql"
        self._target: Any = (parts.hostname, parts.port or 5432) if parts.hostname else f"{folder}/.s.PGSQL.5432"
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        user = parts.username or "postgres"
        self.url = urlunsplit(parts._replace(netloc=f"{user}@127.0.0.1:{self.port}", query=""))
        self._mode = "pass"
        self._changed = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._dead: set[socket.socket] = set()
        self._threads = [threading.Thread(target=self._accept, name="proxy")]
        self._threads[0].start()

    def mend(self) -> None:
        self._change("pass")

    def stall(self) -> None:
        self._change("stall")

    def mute(self) -> None:
        self._change("mute")

    def swallow(self) -> None:
        with self._changed:
            self._dead |= self._sockets
        self._change("swallow")

    def cut(self) -> None:
        self._change("cut")
        with self._changed:
            for connection in self._sockets:
                with suppress(OSError):
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    connection.shutdown(socket.SHUT_RDWR)

    def _change(self, mode: str) -> None:
        with self._changed:
            self._mode = mode
            self._changed.notify_all()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._mode == "cut":
                    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    client.close()
                    continue
                server = socket.socket(socket.AF_UNIX if isinstance(self._target, str) else socket.AF_INET)
                with self._changed:
                    self._sockets |= {client, server}
                    if self._mode == "swallow":
                        self._dead |= {client, server}
                try:
                    server.connect(self._target)
                except OSError:  # the server is down: so says the end of the connection
                    client.shutdown(socket.SHUT_RDWR)
                    continue
                for ends in ((client, server, {"stall"}), (server, client, {"stall", "mute"})):
                    self._threads.append(threading.Thread(target=self._carry, args=ends, name="proxy"))
                    self._threads[-1].start()

    def _carry(self, source: socket.socket, sink: socket.socket, held_by: set[str]) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                with self._changed:
                    self._changed.wait_for(lambda: self._mode not in held_by)
                if source not in self._dead:
                    sink.sendall(data)
        if source in self._dead:
            return  # nobody hears of the end either
        for end in (sink, source):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._threads[0].join()
        self.mend()
        for connection in self._sockets:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for connection in [self._listener, *self._sockets]:
            connection.close()
