"""Encrypted connections: every mode against every kind of server, and against somebody in between."""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

import pytest
from middle import Middle
from orphans import orphan
from steps import wait_until
from tls_server import HOST, PASSWORD, Certificates, TlsServer, asked_for, binaries, url

import bandog

MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
STRONG = MODES[3:]

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def ours(folder):
    return Certificates(folder, "ours")


@pytest.fixture(scope="module")
def theirs(folder):
    return Certificates(folder, "theirs")


@pytest.fixture(scope="module")
def certificate(ours):
    return ours.sign("server", also=f"DNS:{HOST}")


def server_with(ssl=None, **options):
    server = TlsServer(ssl=ssl, **options)
    for user in ("anybody", "tls_only", "plain_only", "certified"):
        server.execute(f"CREATE ROLE {user} SUPERUSER LOGIN PASSWORD '{PASSWORD}'")
    server.execute("CREATE DATABASE jobs")
    bandog.migrate(f"postgresql://postgres@/jobs?host={server.folder}&port={server.port}")
    return server


@pytest.fixture(scope="module")
def server(certificate, ours):
    assert binaries() is not None
    assert (binaries() / "initdb").is_file(), f"BANDOG_TEST_POSTGRES_BINARIES={asked_for()} has no initdb in it"
    with closing(server_with(ssl=(*certificate, ours.root))) as server:
        yield server


@pytest.fixture(scope="module")
def plain_server():
    with closing(server_with()) as server:
        yield server


@pytest.fixture(scope="module")
def standby(server):
    with closing(TlsServer(standby_of=server)) as standby:
        yield standby


@pytest.fixture(autouse=True)
def no_settings_of_this_machine(monkeypatch, tmp_path):
    """Certificates of the user who runs the tests, and what the environment says about TLS, are not looked at."""
    for name in [name for name in os.environ if name.startswith("PG")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


@pytest.fixture
def meet():
    """Put somebody between client and server."""
    there = []

    def meet(**options):
        there.append(Middle(**options))
        return there[-1]

    yield meet
    for middle in there:
        middle.close()


def session(server, url):
    """What a connection is: "plain" or "encrypted". Raises what connecting raises."""
    name = f"tls-{next(_numbers)}"
    with bandog.connect(f"{url}&application_name={name}") as queue:
        assert queue.enqueue().kind == "admitted"
        rows = server.execute(
            "SELECT ssl, query FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = %s", (name,)
        )
    assert len(rows) >= 2, "one for reading and one for ingesting"
    assert any(query.startswith("-- Admit jobs") for _, query in rows), "the session was found to be the link's own"
    (encrypted,) = {encrypted for encrypted, _ in rows}
    return "encrypted" if encrypted else "plain"


def refusal(url):
    """What is said when there is no connection."""
    with pytest.raises((bandog.CannotOpen, bandog.StoreFailed, ValueError)) as caught:
        bandog.connect(url)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def outcome(server, url):
    """The kind of connection, or what is said where there is none."""
    try:
        return session(server, url)
    except (bandog.CannotOpen, bandog.StoreFailed):
        return refusal(url)


def check(server, target, mode, expected):
    """``expected``: the kind of connection, or words of the refusal, which must name the host and the mode too."""
    said = outcome(server, target)
    if expected in {"plain", "encrypted"}:
        assert said == expected
        return
    assert expected in said
    assert f"sslmode={mode}" in said
    assert "db.example" in said or "other.example" in said


SITUATIONS = {
    "right root": ("plain", "plain", "encrypted", "encrypted", "encrypted", "encrypted"),
    "wrong root": ("plain", "plain", "encrypted", "sslrootcert", "sslrootcert", "sslrootcert"),
    "wrong host name": ("plain", "plain", "encrypted", "encrypted", "encrypted", "connect by a name"),
    "server without TLS": ("plain", "plain", "plain", "ssl=on", "ssl=on", "ssl=on"),
    "server that refuses plain": ("use sslmode=require", *("encrypted",) * 5),
    "server that refuses TLS": ("plain", "plain", "plain", *("pg_hba.conf",) * 3),
}


@pytest.mark.parametrize("situation", SITUATIONS)
@pytest.mark.parametrize("mode", MODES)
def test_every_mode_does_what_libpq_says(mode, situation, server, plain_server, ours, theirs, monkeypatch):
    expected = SITUATIONS[situation][MODES.index(mode)]
    monkeypatch.setenv("PGSSLROOTCERT", str(theirs.root if situation == "wrong root" else ours.root))
    target = plain_server if situation == "server without TLS" else server
    user = {"server that refuses plain": "tls_only", "server that refuses TLS": "plain_only"}.get(situation, "anybody")
    host = "other.example" if situation == "wrong host name" else HOST
    check(target, url(target, user, host, sslmode=mode), mode, expected)


def test_without_a_root_nothing_is_verified_by_require_and_the_system_is_asked_by_verify_full(server):
    assert session(server, url(server, sslmode="require")) == "encrypted"
    assert "sslrootcert=FILE" in refusal(url(server, sslmode="verify-ca"))
    assert "sslrootcert" in refusal(url(server, sslmode="verify-full"))


def test_the_default_is_to_prefer_encryption(server, plain_server):
    assert session(server, url(server)) == "encrypted"
    assert session(plain_server, url(plain_server)) == "plain"


@pytest.mark.parametrize("parameters", [{"sslmode": "verify-full"}, {"sslrootcert": "system"}])
def test_the_authorities_of_the_system(server, ours, parameters, monkeypatch):
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", str(ours.root))
    assert session(server, url(server, **parameters)) == "encrypted"
    assert "connect by a name" in refusal(url(server, host="other.example", **parameters))


def test_a_root_in_the_home_folder_is_used_as_by_libpq(server, ours, theirs, tmp_path):
    file = tmp_path / ".postgresql" / "root.crt"
    file.parent.mkdir()
    file.write_bytes(ours.root.read_bytes())
    assert session(server, url(server, sslmode="verify-full")) == "encrypted"
    file.write_bytes(theirs.root.read_bytes())
    assert "sslrootcert" in refusal(url(server, sslmode="require"))


def test_a_root_that_the_mode_would_not_use_is_refused(server, ours):
    for mode in ("disable", "allow", "prefer"):
        assert "sslmode=verify-full" in refusal(url(server, sslmode=mode, sslrootcert=ours.root))
    assert "sslmode=verify-full" in refusal(url(server, sslmode="require", sslrootcert="system"))


def test_files_that_are_no_certificates_are_named(server, folder, certificate):
    (folder / "empty.crt").write_text("nothing")
    for file in (folder / "missing.crt", folder / "empty.crt", certificate[1]):
        assert str(file) in refusal(url(server, sslmode="verify-full", sslrootcert=file))


@pytest.mark.parametrize("mode", MODES)
def test_who_strips_the_encryption_gets_no_password_from_require_up(mode, meet, ours, monkeypatch):
    monkeypatch.setenv("PGSSLROOTCERT", str(ours.root))
    middle = meet()
    said = refusal(url(middle.port, sslmode=mode))
    heard = b"".join(middle.heard)
    if mode in STRONG:
        assert heard == b""
        assert f"sslmode={mode}" in said
        assert "does not offer encryption" in said
    elif mode == "prefer":
        assert PASSWORD.encode() in heard, "it is heard where the mode allows it, or this test shows nothing"
    else:
        assert heard, "plain text, and no question first"


@pytest.mark.parametrize("mode", STRONG)
def test_who_shakes_hands_himself_gets_nothing_either_where_there_is_a_root(mode, meet, ours, theirs):
    middle = meet(certificate=theirs.sign(f"middle-{mode}", also=f"DNS:{HOST}"))
    refusal(url(middle.port, sslmode=mode, sslrootcert=ours.root))
    assert middle.heard == []
    # Signed by our authority, but for somebody else.
    middle = meet(certificate=ours.sign(f"somebody-{mode}", also="DNS:somebody.example"))
    refusal(url(middle.port, sslmode=mode, sslrootcert=ours.root))
    assert (middle.heard == []) is (mode == "verify-full")


def test_channels_are_bound(server, theirs, meet):
    """Who relays an encrypted connection is noticed without any root too, by the password's exchange."""
    assert session(server, url(server, sslmode="require", channel_binding="require")) == "encrypted"
    middle = meet(certificate=theirs.sign("relay", also=f"DNS:{HOST}"), relay_to=server.port)
    assert session(server, url(middle.port, sslmode="require")) == "plain", "the other half"
    assert "channel binding" in refusal(url(middle.port, sslmode="require", channel_binding="require"))
    assert "channel binding" in refusal(url(server, sslmode="disable", channel_binding="require"))


def test_each_of_several_hosts_is_verified_by_its_own_name(server, ours):
    hosts = {"sslmode": "verify-full", "sslrootcert": ours.root}
    assert session(server, url(server, host=f"other.example,{HOST}", **hosts)) == "encrypted"
    said = refusal(url(server, host="one.example,two.example", **hosts))
    for host in ("one.example", "two.example"):
        assert f"no encrypted connection to {host}:{server.port}" in said


def test_an_address_is_verified_as_an_address(server, ours, meet):
    options = {"sslmode": "verify-full", "sslrootcert": ours.root}
    middle = meet(certificate=ours.sign("address", also="IP:127.0.0.1"), relay_to=server.port)
    assert session(server, url(middle.port, host="127.0.0.1", **options)) == "plain", "the other half"
    assert "connect by a name" in refusal(url(server, host="127.0.0.1", **options))


def test_certificates_of_all_kinds(server, ours, meet):
    """Beyond a relay, since a server has one."""

    def through(certificate, mode, root=ours.root):
        middle = meet(certificate=certificate, relay_to=server.port)
        root = {} if root is None else {"sslrootcert": root}
        return outcome(server, url(middle.port, sslmode=mode, **root))

    own = ours.self_signed("own", also=f"DNS:{HOST}")
    assert through(own, "verify-full", own[0]) == "plain", "the other half"
    assert "sslrootcert" in through(own, "verify-ca")
    somebody = ours.self_signed("somebody", also="DNS:somebody.example")
    assert "connect by a name" in through(somebody, "verify-full", somebody[0])
    assert through(somebody, "verify-ca", somebody[0]) == "plain"
    expired = ours.sign("expired", also=f"DNS:{HOST}", days=-1)
    assert "renew" in through(expired, "verify-ca")
    assert through(expired, "require", None) == "plain"
    nameless = ours.sign("nameless", common_name=HOST)
    assert "subjectAltName" in through(nameless, "verify-full")
    assert through(nameless, "verify-ca") == "plain"
    old = ours.sign("old", common_name=HOST, version_1=True)
    assert through(old, "require", None) == "plain"
    assert "version 3" in through(old, "verify-full")


def test_a_client_has_a_certificate_too(server, ours, theirs, tmp_path):
    options = {"sslmode": "verify-full", "sslrootcert": ours.root}
    certificate, key = ours.sign("certified")
    with_own = {**options, "sslcert": certificate, "sslkey": key}
    assert session(server, url(server, "certified", **with_own)) == "encrypted"
    assert "sslcert" in refusal(url(server, "certified", **options))
    assert "belong together" in refusal(url(server, "certified", **options, sslcert=certificate))
    foreign, foreign_key = theirs.sign("foreign", common_name="certified")
    said = refusal(url(server, "certified", **options, sslcert=foreign, sslkey=foreign_key))
    assert "sslcert" in said
    said = refusal(url(server, "certified", **options, sslcert=certificate, sslkey=foreign_key))
    assert str(certificate) in said
    # As libpq: in the home folder it goes without saying.
    home = tmp_path / ".postgresql"
    home.mkdir()
    for name, file in (("postgresql.crt", certificate), ("postgresql.key", key), ("root.crt", ours.root)):
        (home / name).write_bytes(file.read_bytes())
    (home / "postgresql.key").chmod(0o644)
    said = refusal(url(server, "certified", sslmode="verify-full"))
    assert "chmod 600" in said
    (home / "postgresql.key").chmod(0o600)
    assert session(server, url(server, "certified", sslmode="verify-full")) == "encrypted"


def test_direct_negotiation_asks_no_question(server, certificate, ours, meet):
    options = {"sslnegotiation": "direct", "sslrootcert": ours.root}
    middle = meet(certificate=certificate, relay_to=server.port, direct=True)
    assert session(server, url(middle.port, sslmode="verify-full", **options)) == "plain", "the other half"
    assert set(middle.protocols) == {"postgresql"}
    assert {bytes([22])} == set(middle.heard), "the first byte is a handshake's"
    assert "sslmode=require" in refusal(url(middle.port, sslmode="prefer", sslnegotiation="direct"))


def test_a_socket_on_this_machine_is_not_encrypted_and_needs_not_be(server):
    for mode in MODES[:4] + MODES[5:]:
        address = f"postgresql://postgres@/jobs?host={server.folder}&port={server.port}&sslmode={mode}"
        assert session(server, address) == "plain"


def test_a_password_that_was_refused_is_not_sent_again_in_plain_text(server):
    server.execute("ALTER SYSTEM SET log_connections = on")
    server.execute("SELECT pg_reload_conf()")
    log = server.folder / "log"
    before = log.read_text().count("connection received")
    said = refusal(url(server, sslmode="prefer").replace(PASSWORD, "wrong"))
    assert "password authentication failed" in said
    connections = log.read_text().count("connection received") - before
    server.execute("ALTER SYSTEM RESET log_connections")
    server.execute("SELECT pg_reload_conf()")
    assert connections == 1


@pytest.mark.parametrize(
    ("attributes", "order", "expected"),
    [
        ("any", "standby first", "standby"),
        ("read-write", "standby first", "primary"),
        ("primary", "standby first", "primary"),
        ("read-only", "primary first", "standby"),
        ("standby", "primary first", "standby"),
        ("prefer-standby", "primary first", "standby"),
    ],
)
def test_the_server_that_was_asked_for(attributes, order, expected, server, standby):
    ports = [server.port, standby.port] if order == "primary first" else [standby.port, server.port]
    name = f"tls-{next(_numbers)}"
    target = url(
        server,
        host=f"{HOST},{HOST}",
        target_session_attrs=attributes,
        application_name=name,
    ).replace(f"port={server.port}", f"port={ports[0]},{ports[1]}")
    wait_until(lambda: standby.execute("SELECT to_regclass('bandog.job')", database="jobs") != [(None,)], "the tables")
    with bandog.connect(target) as queue:
        assert queue.jobs().jobs is not None
        there = {
            place
            for place, where in (("primary", server), ("standby", standby))
            if where.execute("SELECT 1 FROM pg_stat_activity WHERE application_name = %s", (name,))
        }
    assert there == {expected}


def test_no_server_is_as_asked_for(server):
    said = refusal(url(server, target_session_attrs="standby"))
    assert "it is not a standby (target_session_attrs=standby)" in said
    assert session(server, url(server, target_session_attrs="prefer-standby")) == "encrypted"
    server.execute("ALTER ROLE anybody SET default_transaction_read_only = on")
    try:
        assert "it does not allow writes" in refusal(url(server, target_session_attrs="read-write"))
    finally:
        server.execute("ALTER ROLE anybody RESET default_transaction_read_only")


def test_a_host_that_is_silent_does_not_keep_from_the_next(server):
    """Not while opening, and not where a call has less time than a host is given."""
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        ports = f"{silent.getsockname()[1]},{server.port}"
        target = url(server, host=f"{HOST},{HOST}", connect_timeout=2, sslmode="require")
        with bandog.connect(target.replace(f"port={server.port}", f"port={ports}")) as queue:
            queue.enqueue()

            def claims():
                with suppress(bandog.StoreFailed):
                    return queue.claim(lease=1)
                return []

            wait_until(claims, "a claim, for which half a second is left")


def test_an_encrypted_session_ends_with_its_process_although_a_child_lives(server):
    name = f"tls-{next(_numbers)}"
    question = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
    with orphan(url(server, sslmode="require", application_name=name)) as child:
        wait_until(lambda: server.execute(question, (name,)) == [(0,)], "the sessions end")
        os.kill(child, 0)


def test_a_renewed_certificate_of_the_client_is_taken_up(server, ours, tmp_path):
    """The files are read for each connection."""
    certificate, key = tmp_path / "client.crt", tmp_path / "client.key"
    for target, source in zip((certificate, key), ours.sign("certified"), strict=True):
        target.write_bytes(source.read_bytes())
        target.chmod(0o600)
    name = f"tls-{next(_numbers)}"
    options = {"sslmode": "require", "sslcert": certificate, "sslkey": key, "application_name": name}
    serials = "SELECT client_serial FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = %s"
    with bandog.connect(url(server, "certified", **options)) as queue:
        ((before,),) = server.execute(serials, (name,))
        for target, source in zip((certificate, key), ours.sign("certified"), strict=True):
            target.write_bytes(source.read_bytes())
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s", (name,))
        wait_until(lambda: server.execute(serials, (name,)) == [], "the session ends")
        assert queue.jobs() is not None
        ((after,),) = server.execute(serials, (name,))
    assert after != before


def test_a_machine_that_was_meant_to_have_the_server_and_has_not_fails(tmp_path):
    environment = {**os.environ, "BANDOG_TEST_POSTGRES_BINARIES": str(tmp_path)}
    test = f"{Path(__file__)}::test_the_default_is_to_prefer_encryption"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"BANDOG_TEST_POSTGRES_BINARIES={tmp_path} has no initdb in it" in done.stdout
