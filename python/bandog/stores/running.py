"""Which jobs the runtimes of this process run, and whose claims were settled through ``connection=`` meanwhile.

Such a claim is never completed by the runtime: whether the job is, the caller's transaction decides. The runtime
settles it all the same, with the claim's own token. Where the transaction was committed, the store repeats what that
has recorded; where it was rolled back, the claim still holds, and the job fails or is tried again; where it is still
open, the store is busy, and asked again.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, TypeVar

from bandog.outcome import Completed, Failed

if TYPE_CHECKING:
    from bandog._core import ClaimedJob

__all__ = ["NOT_COMMITTED", "Running", "settled_elsewhere"]

NOT_COMMITTED = "the executor settled the job through connection=, and the transaction was not committed"

_runtimes: weakref.WeakSet[Running] = weakref.WeakSet()
_changing = threading.Lock()

_Report = TypeVar("_Report")


class Running:
    """The jobs that the executors of one runtime run now.

    Attributes:
        jobs: by slot, any number that is one running job's own. The runtime puts a job in before its executor starts.
    """

    __slots__ = ("__weakref__", "_settled", "jobs")

    def __init__(self) -> None:
        self.jobs: dict[int, ClaimedJob] = {}
        # By identity: the slot of one that has ended is another one's next.
        self._settled: set[ClaimedJob] = set()
        with _changing:
            _runtimes.add(self)

    def ended(self, slot: int, report: _Report) -> _Report | Failed:
        """An executor has returned: what the runtime reports in its name. ``None`` stands for completed."""
        job = self.jobs.pop(slot)
        if self._settled and job in self._settled:
            self._settled.discard(job)
            if report is None or isinstance(report, Completed):
                return Failed(NOT_COMMITTED)
        return report

    def note(self, job_id: str, lease_token: str) -> None:
        """A claim is being settled elsewhere; does nothing where no executor of this runtime runs it."""
        for slot, job in list(self.jobs.items()):
            if job.lease_token == lease_token and job.job_id == job_id:
                self._settled.add(job)
                if self.jobs.get(slot) is not job:  # it has ended meanwhile, and nobody asks any more
                    self._settled.discard(job)


def settled_elsewhere(job_id: str, lease_token: str) -> None:
    """A claim is being settled through ``connection=``: tell the runtime of this process that runs its job, if any."""
    with _changing:
        runtimes = list(_runtimes)
    for runtime in runtimes:
        runtime.note(job_id, lease_token)
