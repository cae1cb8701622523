"""Operations of an open queue on connections of its caller's.

Loaded with every queue, so that it loads the rest only once a connection is passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, TypeVar
from weakref import WeakSet

from bandog._native import core
from bandog.errors import InvalidJob, QueueClosed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bandog._core import ClaimedJob, Engine
    from bandog.job import Job
    from bandog.outcome import Report
    from bandog.stores.driving import Borrowed, OwnCall
    from bandog.stores.transition import Report as ReportParts
    from bandog.testing import FakeClock

__all__ = ["Claim", "Elsewhere", "Home", "Schema", "identity"]

Identity: TypeAlias = tuple[int, int]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Home:
    """Where the jobs of an SQLite queue are, and what its times are read from.

    Attributes:
        path: of the file, absolute.
        file: what the path named when the queue was opened.
        fake_clock: of a test; ``None`` for the machine's clocks.
    """

    path: str
    file: Identity | None
    fake_clock: FakeClock | None

    schema: ClassVar[None] = None


class Schema:
    """Where the jobs of a PostgreSQL queue are.

    Attributes:
        schema: the schema with the tables.
        target: the server, for messages.
        ask: asks the queue's own connection which schema of which database of which server that is.
        identity: the answer; ``None`` before it was asked.
        same: the connections that were found to lead there. That does not change while they live.
    """

    def __init__(self, schema: str, target: str, ask: Callable[[], OwnCall]) -> None:
        self.schema = schema
        self.target = target
        self.ask = ask
        self.identity: str | None = None
        self.same: WeakSet[Any] = WeakSet()


class Claim(NamedTuple):
    """How a claim is named: by its job's order number where that is known, else by the job's id."""

    number: int | None
    job_id: str
    lease_token: str


def identity(path: str) -> Identity | None:
    """The file behind a path; ``None`` where there is none."""
    try:
        found = Path(path).stat()
    except (OSError, ValueError):
        return None
    return found.st_dev, found.st_ino


class Elsewhere:
    """What a queue does on the caller's connection instead of its own.

    Attributes:
        is_closed: whether the queue is.
    """

    def __init__(self, engine: Engine, home: Home | Schema, refuse: Callable[[str, str], None]) -> None:
        """``refuse`` raises for the words ``stale`` and ``not_found``, given with the job's id."""
        self._engine = engine
        self._home = home
        self._refuse = refuse
        self.is_closed = False

    def ingest(self, jobs: Sequence[Job], connection: Any, convert: Callable[[Any], _T]) -> Borrowed[_T]:
        """Store jobs in the caller's transaction. They are read and checked here and now.

        Raises:
            InvalidJob: a job that no store may accept, or an object that is no connection.
        """
        from bandog.stores.adapting import adapt  # noqa: PLC0415 - as this module says
        from bandog.stores.admission import new_job  # noqa: PLC0415
        from bandog.stores.driving import Borrowed  # noqa: PLC0415

        self._check_open()
        home = self._home
        adapted = adapt(connection, home.schema)
        new = [new_job(job, self._engine.payload_limit) for job in jobs]
        if isinstance(home, Schema):
            from bandog.stores.postgres.ingest import ingest as ingest_postgres  # noqa: PLC0415

            return Borrowed(adapted, lambda connection: ingest_postgres(connection, home, new), convert)
        from bandog.stores.sqlite.ingest import ingest as ingest_sqlite  # noqa: PLC0415

        return Borrowed(adapted, lambda connection: ingest_sqlite(connection, home, new), convert)

    def settle(
        self,
        reports: Sequence[tuple[ClaimedJob | tuple[str, str], Report]],
        connection: Any,
        convert: Callable[[Any], _T],
    ) -> Borrowed[_T]:
        """End claims in the caller's transaction. The reports are read and checked here and now.

        Raises:
            InvalidJob: a claim or report that is none, or an object that is no connection.
        """
        from bandog.stores.adapting import adapt  # noqa: PLC0415 - as this module says
        from bandog.stores.driving import Borrowed  # noqa: PLC0415
        from bandog.stores.running import settled_elsewhere  # noqa: PLC0415

        self._check_open()
        home, refuse = self._home, self._refuse
        adapted = adapt(connection, home.schema)
        read = [_pair(pair, self._engine.payload_limit) for pair in reports]
        for claim, _ in read:
            # Before anything else can go wrong: from here on the outcome is the transaction's to decide.
            settled_elsewhere(claim.job_id, claim.lease_token)
        if isinstance(home, Schema):
            from bandog.stores.postgres.settle import settle as settle_postgres  # noqa: PLC0415

            return Borrowed(adapted, lambda connection: settle_postgres(connection, home, read, refuse), convert)
        from bandog.stores.sqlite.settle import settle as settle_sqlite  # noqa: PLC0415

        return Borrowed(adapted, lambda connection: settle_sqlite(connection, home, read, refuse), convert)

    def _check_open(self) -> None:
        self._engine.held()  # raises in a forked child
        if self.is_closed:
            message = "this queue is closed; open it again with bandog.connect()"
            raise QueueClosed(message)


def _pair(pair: Any, payload_limit: int) -> tuple[Claim, ReportParts]:
    from bandog.stores.transition import Backoff  # noqa: PLC0415 - as this module says
    from bandog.stores.transition import Report as ReportParts  # noqa: PLC0415

    claim, report = _two(pair, "reports", "pairs of a claim and an outcome")
    name = _claim(claim)
    pickled: Any = core.freeze_report(report, payload_limit).__reduce__()
    kind, text, retry, wait, backoff = pickled[1]
    return name, ReportParts(kind, text, retry, wait, None if backoff is None else Backoff(*backoff))


def _claim(claim: Any) -> Claim:
    if isinstance(claim, core.ClaimedJob):
        pickled: Any = claim.__reduce__()
        names, _, numbers, _, _ = pickled[1]
        return Claim(numbers[0], names[1], names[0])
    job_id, lease_token = _two(claim, "claim", "a ClaimedJob or (job_id, lease_token)")
    return Claim(None, _text(job_id, "job_id"), _text(lease_token, "lease_token"))


def _two(value: Any, field: str, wanted: str) -> tuple[Any, Any]:
    both: tuple[Any, ...] = value
    if isinstance(value, tuple) and len(both) == 2:  # noqa: PLR2004 - as the type says
        return both
    message = f"{field}: must be {wanted}, not {type(both).__name__}"
    raise InvalidJob(message, field=field)


def _text(value: Any, field: str) -> str:
    if not isinstance(value, str):
        message = f"{field}: must be a str, not {type(value).__name__}"
        raise InvalidJob(message, field=field)
    return value
