"""A process with a runtime, told what to do a line at a time: `prober.py FILE`.

probe            make a runtime with a liveness probe: `made`, or `refused`
lease SECONDS    make one with leases: the same
close            close it
run              tick in a thread, with an executor that never returns: the job's id once it runs
tick             one tick, nothing is alive: its kind, its job, and what was recovered
forked WORDS     fork a child that does WORDS and lives on, without the pipes, until the file FILE.stop is there:
                 the answer of the child to `probe` or `close`, or `-` for `nothing`
"""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import bandog


class Prober:
    """The queue, and the runtime that is there."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.queue = bandog.connect(path)
        self.dog: bandog.Watchdog | None = None

    def make(self, execute=lambda _job, _token: None, **options) -> str:
        try:
            self.dog = bandog.Watchdog(self.queue, execute, **options)
        except bandog.RuntimeConflict:
            return "refused"
        return "made"

    def run(self) -> str:
        started: list[str] = []
        running = threading.Event()

        def execute(job: bandog.ClaimedJob, _token: bandog.CancellationToken) -> None:
            started.append(job.job_id)
            running.set()
            threading.Event().wait()

        self.dog._execute = execute
        threading.Thread(target=self.dog.tick, daemon=True).start()
        return started[0] if running.wait(30) else "nothing to run"

    def tick(self) -> str:
        tick = self.dog.tick()
        return f"{tick.kind} {tick.job_id} {','.join(tick.recovered)}"

    def forked(self, words: str) -> str:
        reader, writer = os.pipe()
        if os.fork() == 0:
            with Path(os.devnull).open("r+b") as nothing:
                for descriptor in (0, 1, 2):
                    os.dup2(nothing.fileno(), descriptor)
            answer = "-"
            if words == "probe":
                self.queue = bandog.connect(self.path)
                answer = self.make(is_alive=lambda _record: False)
            elif words == "close":
                self.dog.close()
                self.dog = None
                answer = "closed"
            os.write(writer, answer.encode())
            os.close(writer)
            deadline = time.monotonic() + 60
            while not self.path.with_suffix(".stop").exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            os._exit(0)
        os.close(writer)
        answer = os.read(reader, 100).decode()
        os.close(reader)
        return answer


def main() -> None:
    prober = Prober(Path(sys.argv[1]))
    print("ready", flush=True)
    for line in sys.stdin:
        match line.split():
            case ["probe"]:
                answer = prober.make(is_alive=lambda _record: False)
            case ["lease", seconds]:
                answer = prober.make(lease=float(seconds))
            case ["close"]:
                prober.dog.close()
                answer = "closed"
            case ["run"]:
                answer = prober.run()
            case ["tick"]:
                answer = prober.tick()
            case ["forked", words]:
                answer = prober.forked(words)
        print(answer, flush=True)
    # Its threads never return, and closing would wait for nobody: just go.
    os._exit(0)


main()
