"""Somebody between client and server: who strips the encryption, who shakes hands himself, or who merely relays."""

from __future__ import annotations

import socket
import ssl
import threading
from contextlib import closing, suppress
from pathlib import Path

SSL_REQUEST = bytes.fromhex("0000000804d2162f")
ASKS_FOR_PASSWORD = b"R" + (8).to_bytes(4, "big") + (3).to_bytes(4, "big")


class Middle:
    """Listens on a port, and keeps what clients send after the question whether the server can encrypt."""

    def __init__(
        self,
        *,
        certificate: tuple[Path, Path] | None = None,
        relay_to: int | None = None,
        direct: bool = False,
    ) -> None:
        """Cannot encrypt, unless it has a certificate. Asks for a password in plain words, unless it relays."""
        self.heard: list[bytes] = []
        self.protocols: list[str | None] = []
        self.trouble: list[Exception] = []
        self._relay_to = relay_to
        self._direct = direct
        self._context = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(*certificate)
            self._context.set_alpn_protocols(["postgresql"])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        # Wakes the thread that waits for a client, which closing alone does not.
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._meet, args=(client,), daemon=True).start()

    def _meet(self, client: socket.socket) -> None:
        with closing(client):
            try:
                self._talk(client)
            except (OSError, ssl.SSLError) as error:
                self.trouble.append(error)

    def _talk(self, client: socket.socket) -> None:
        client.settimeout(30)
        if self._direct:
            # A client that asks first would be heard to do so, and its question is no handshake.
            self.heard.append(client.recv(1, socket.MSG_PEEK))
        else:
            first = client.recv(8)
            if first != SSL_REQUEST:
                self.heard.append(first)
                return
            client.sendall(b"N" if self._context is None else b"S")
        if self._context is not None:
            client = self._context.wrap_socket(client, server_side=True)
            self.protocols.append(client.selected_alpn_protocol())
        with closing(client):
            if self._relay_to is not None:
                self._relay(client, self._relay_to)
                return
            while said := client.recv(65536):
                self.heard.append(said)
                client.sendall(ASKS_FOR_PASSWORD)

    def _relay(self, client: socket.socket, port: int) -> None:
        def pass_on(source: socket.socket, target: socket.socket) -> None:
            with suppress(OSError):
                while said := source.recv(65536):
                    target.sendall(said)
                target.shutdown(socket.SHUT_WR)

        with closing(socket.create_connection(("127.0.0.1", port))) as server:
            back = threading.Thread(target=pass_on, args=(server, client), daemon=True)
            back.start()
            pass_on(client, server)
            back.join(30)
