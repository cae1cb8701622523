"""A process that is killed before the commit leaves neither its row nor the job; one after it leaves both."""

from pathlib import Path

import pytest
from processes import assert_sound, nursery, select

import bandog

ERRAND = Path(__file__).with_name("killed.py")


@pytest.fixture
def start():
    with nursery() as begin:
        yield begin


def killed_at(start, path, task, word):
    child = start(ERRAND, path, task)
    heard = child.hear()
    while heard != word:
        heard = child.ask("on")
    child.kill()
    assert_sound(path)
    return [paid for (paid,) in select(path, "SELECT word FROM business")]


@pytest.mark.parametrize("word", ["wrote", "done"])
def test_killed_before_the_commit_an_enqueue_never_was(start, path, word):
    assert killed_at(start, path, "enqueue", word) == []
    with bandog.connect(path) as queue:
        assert list(queue.jobs()) == []
        assert queue.enqueue({"n": 2}, job_id="a").kind == "admitted"


def test_killed_after_the_commit_an_enqueue_stands(start, path):
    assert killed_at(start, path, "enqueue", "committed") == ["paid"]
    with bandog.connect(path) as queue:
        (claim,) = queue.claim()
        assert (claim.job_id, claim.payload) == ("a", {"n": 1})


@pytest.mark.parametrize("word", ["wrote", "done"])
def test_killed_before_the_commit_a_settlement_never_was(start, path, word):
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="a")
        assert killed_at(start, path, "settle", word) == []
        record = queue.read("a")
        assert (record.state, record.attempts) == ("running", 1)
        # Its claim is lost with it, and the job is run again: this time with its row.
        assert killed_at(start, path, "settle-again", "committed") == ["paid"]
        assert queue.read("a").outcome == bandog.Completed()


def test_killed_after_the_commit_a_settlement_stands(start, path):
    with bandog.connect(path) as queue:
        queue.enqueue(job_id="a")
        assert killed_at(start, path, "settle", "committed") == ["paid"]
        assert queue.read("a").outcome == bandog.Completed()
        assert queue.claim() == []
