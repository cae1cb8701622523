"""Hosts of their own on one machine: network namespaces, each with a cable to the server's, that a test cuts or jams.

They share the machine's files and processes, and nothing of its network: what a test does to a cable is felt by the two
ends of it alone. This takes root and `ip`, of Debian's iproute2.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Self

NOBODY = "02:00:00:00:00:01"
"""An address of the link layer that no end of a cable has: what is sent to it is dropped without a word."""

_numbers = itertools.count(1)


def ip(*words: str) -> None:
    """Change the machine's network."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False, timeout=30)  # noqa: S607
    if done.returncode:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def why_there_are_none() -> str | None:
    """Why this machine allows no namespaces; `None` where it does."""
    if os.geteuid() != 0:
        return "network namespaces take root"
    if shutil.which("ip") is None:
        return "there is no `ip`: install iproute2"
    try:
        with Namespace() as one, Namespace() as other:
            Cable(one, other)
    except OSError as error:
        return f"this machine allows no network namespaces: {error}"
    return None


class Namespace:
    """A host's network."""

    def __init__(self) -> None:
        self.name = f"bandog-{os.getpid()}-{next(_numbers)}"
        ip("netns", "add", self.name)
        self.path = Path("/run/netns") / self.name
        self.within = ("ip", "netns", "exec", self.name)
        """The command that runs another one in it."""
        ip("-n", self.name, "link", "set", "lo", "up")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_raised: object) -> None:
        ip("netns", "del", self.name)  # and its end of every cable


class Cable:
    """What connects a host with the server's; both have an address on it."""

    def __init__(self, server: Namespace, host: Namespace) -> None:
        number = next(_numbers)
        self.server_address, self.host_address = f"10.213.{number}.1", f"10.213.{number}.2"
        here, there = f"host{number}", "server"
        ip("link", "add", here, "netns", server.name, "type", "veth", "peer", "name", there, "netns", host.name)
        self._ends = (
            (server.name, here, self.server_address, self.host_address),
            (host.name, there, self.host_address, self.server_address),
        )
        for name, device, address, _ in self._ends:
            ip("-n", name, "address", "add", f"{address}/30", "dev", device)
            ip("-n", name, "link", "set", device, "up")

    def cut(self) -> None:
        """It is pulled out at the server."""
        name, device, _, _ = self._ends[0]
        ip("-n", name, "link", "set", device, "down")

    def jam(self) -> None:
        """Every packet of either end is lost on the way, and neither is told."""
        for name, device, _, other in self._ends:
            ip("-n", name, "neigh", "replace", other, "lladdr", NOBODY, "nud", "permanent", "dev", device)

    def mend(self) -> None:
        for name, device, _, _ in self._ends:
            ip("-n", name, "link", "set", device, "up")
            ip("-n", name, "neigh", "flush", "dev", device, "nud", "permanent")


@contextmanager
def hosts(count: int) -> Iterator[tuple[Namespace, list[tuple[Namespace, Cable]]]]:
    """A server's namespace, and so many others with a cable to it."""
    with ExitStack() as stack:
        server = stack.enter_context(Namespace())
        others = [stack.enter_context(Namespace()) for _ in range(count)]
        yield server, [(host, Cable(server, host)) for host in others]
