"""Errors: one tree, with fields, that crosses process boundaries."""

import copy
import inspect
import pickle

import pytest
from steps import pickled

import bandog
from bandog import errors

EXAMPLES = [
    errors.BandogError("text"),
    errors.InvalidJob("text", field="queue", job_id="a"),
    errors.InvalidJob("text", field="queue"),
    errors.PayloadError("text", field="payload", path="$.a[1]", job_id="a"),
    errors.JobConflict("text", job_id="a", difference="payload, queue"),
    errors.LaneFull("text", job_id="a", queue="q", lane="l", limit=3),
    errors.RequeueRefused("text", job_id="a", outcome="completed"),
    errors.RuntimeConflict("text", target="jobs.sqlite"),
    errors.JobNotFound("text", job_id="a"),
    errors.StaleClaim("text", job_id="a"),
    errors.JobAborted("lease_lost"),
    errors.WorkerStateError("m", state="running"),
    errors.QueueClosed("text"),
    errors.ForkedQueue("text", opened_by=7),
    errors.NativeModuleMissing("text"),
    errors.StoreError("text", target="jobs.sqlite"),
    errors.CannotOpen("text", target="jobs.sqlite"),
    errors.SchemaMismatch("text", target="jobs.sqlite"),
    errors.StoreBusy("text", target="jobs.sqlite", waited=5.5),
    errors.StorageFull("text", target="jobs.sqlite"),
    errors.StoreFailed("text", target="jobs.sqlite"),
]
by_class = pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)


def test_every_class_has_an_example_here():
    classes = {value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, Exception)}
    assert {type(error) for error in EXAMPLES} == classes


@by_class
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_is_pickled_with_its_fields(error, protocol):
    back = pickled(error, protocol)
    assert type(back) is type(error)
    assert (str(back), back.args, vars(back)) == (str(error), error.args, vars(error))


@by_class
def test_an_error_is_copied_with_its_fields(error):
    for back in (copy.copy(error), copy.deepcopy(error)):
        assert back is not error
        assert (type(back), str(back), vars(back)) == (type(error), str(error), vars(error))


@by_class
def test_an_error_shows_its_message(error):
    assert str(error) == error.message
    assert error.message in repr(error)


def test_notes_are_kept():
    error = errors.JobNotFound("text", job_id="a")
    error.add_note("while tidying up")
    assert pickled(error).__notes__ == ["while tidying up"]


def test_an_own_subclass_with_a_field_is_pickled():
    error = Own("text", job_id="a")
    error.extra = 5
    back = pickled(error)
    assert (type(back), back.extra, back.job_id) == (Own, 5, "a")


class Own(errors.StaleClaim):
    """A user's."""


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (errors.InvalidJob, ValueError),
        (errors.PayloadError, errors.InvalidJob),
        (errors.JobNotFound, LookupError),
        (errors.NativeModuleMissing, ImportError),
        (errors.CannotOpen, OSError),
        (errors.CannotOpen, errors.StoreError),
        (errors.SchemaMismatch, errors.StoreError),
        (errors.StoreBusy, errors.StoreError),
        (errors.StorageFull, errors.StoreError),
        (errors.StoreFailed, errors.StoreError),
    ],
)
def test_an_error_is_also_what_one_expects(error, builtin):
    assert issubclass(error, builtin)
    assert issubclass(error, bandog.BandogError)


def test_every_class_is_public():
    for error in EXAMPLES:
        assert getattr(bandog, type(error).__name__) is type(error)


def test_errors_of_the_engine_are_pickled_too(tmp_path):
    with bandog.connect(tmp_path / "jobs.sqlite") as queue:
        for call in (lambda: queue.enqueue(float("nan"), job_id="a"), lambda: queue.read("never")):
            with pytest.raises(bandog.BandogError) as caught:
                call()
            back = pickled(caught.value)
            assert (type(back), str(back), vars(back)) == (type(caught.value), str(caught.value), vars(caught.value))
