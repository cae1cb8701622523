"""What a URL or path names."""

from pathlib import Path, PurePosixPath

import pytest

from bandog._url import SqliteLocation, locate
from bandog.errors import InvalidJob


@pytest.mark.parametrize(
    ("url", "path", "options"),
    [
        ("jobs.sqlite", "jobs.sqlite", {}),
        ("/var/jobs.sqlite", "/var/jobs.sqlite", {}),
        (b"/var/\xff.sqlite", "/var/\udcff.sqlite", {}),
        (PurePosixPath("/var/jobs.sqlite"), "/var/jobs.sqlite", {}),
        ("C:/jobs.sqlite", "C:/jobs.sqlite", {}),
        ("a?synchronous=off", "a?synchronous=off", {}),
        ("sqlite:jobs.sqlite", "sqlite:jobs.sqlite", {}),
        ("sqlite:///jobs.sqlite", "jobs.sqlite", {}),
        ("sqlite:////var/jobs.sqlite", "/var/jobs.sqlite", {}),
        ("SQLITE:///jobs.sqlite", "jobs.sqlite", {}),
        ("sqlite:///a%20b%3F%23%25.sqlite", "a b?#%.sqlite", {}),
        ("sqlite:///jobs.sqlite?synchronous=normal", "jobs.sqlite", {"synchronous": "normal"}),
        ("sqlite:///j?busy_timeout=0.5&synchronous=full", "j", {"busy_timeout": "0.5", "synchronous": "full"}),
        ("sqlite:///j?synchronous=", "j", {"synchronous": ""}),
    ],
)
def test_what_is_named(url, path, options):
    assert locate(url) == SqliteLocation(Path(path), options)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://host/db",
        "d1://account/database",
        "https://example.org/jobs.sqlite",
        "file:///jobs.sqlite",
        "sqlite+aiosqlite:///jobs.sqlite",
        "sqlite://jobs.sqlite",
        "sqlite://localhost/jobs.sqlite",
        "sqlite:///jobs.sqlite#part",
        "sqlite:///jobs.sqlite?nolock=1",
        "sqlite:///jobs.sqlite?Synchronous=full",
        "sqlite:///jobs.sqlite?busy_timeout=1&vfs=none",
        "sqlite://[::1",
        "://",
    ],
)
def test_what_is_refused(url):
    with pytest.raises(InvalidJob) as caught:
        locate(url)
    assert caught.value.field == "url"


@pytest.mark.parametrize("url", ["mysql://ada:hunter2@host/db", "sqlite://ada:hunter2@host/db", "x://[hunter2"])
def test_a_refusal_does_not_repeat_the_url(url):
    with pytest.raises(InvalidJob) as caught:
        locate(url)
    assert "hunter2" not in str(caught.value)


def test_an_unknown_option_is_named_with_those_that_are_known():
    with pytest.raises(InvalidJob, match=r"nolock.*synchronous.*busy_timeout"):
        locate("sqlite:///jobs.sqlite?nolock=1")


def test_a_name_is_taken_as_it_is_or_refused():
    """The standard library drops tabs and newlines from URLs: then another file would be opened than was named."""
    for url in ("sqlite:///a\nb", "sqlite:///a\tb", "sqlite:///a\rb"):
        try:
            location = locate(url)
        except InvalidJob:
            continue
        assert location.path == Path(url.removeprefix("sqlite:///"))
