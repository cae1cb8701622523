"""A worker in the foreground: `at_work.py FILE HOW OPTIONS`. Says `running` once it claims, and `stopped` at the end.

HOW is `threads`, `coroutines` or `processes`. OPTIONS is a JSON object: arguments of the worker; `connect`, arguments
of the queue; `burst`; `switch`, the interpreter's switch interval; `loop`, a class of event loops of this file. On each
line of its standard input it answers with what the worker says of itself, as JSON. Logs go to standard error.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import sys
import threading
import time
from typing import Any

import handlers

import bandog


class WithoutSignals(asyncio.SelectorEventLoop):
    """As every loop is on Windows."""

    def add_signal_handler(self, sig: int, callback: object, *args: object) -> None:
        raise NotImplementedError


def answer(worker: bandog.Worker) -> None:
    """Tell that it runs, and then what it is asked."""
    while not worker.running:
        if worker.stats().state == "stopped":
            return
        time.sleep(0.002)
    print("running", flush=True)
    for _ in sys.stdin:
        facts = dataclasses.asdict(worker.stats()) | {"is_running": worker.running}
        print(json.dumps(facts), flush=True)


def main() -> None:
    path, how, options = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    taken: dict[str, Any] = {name: options.pop(name, None) for name in ("connect", "burst", "switch", "loop", "wait")}
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    if taken["switch"]:
        sys.setswitchinterval(taken["switch"])
    execute = handlers.execute_async if how == "coroutines" else handlers.execute
    if how == "processes":
        options["processes"] = options.pop("concurrency", 2)
    with bandog.connect(path, **(taken["connect"] or {})) as queue:
        worker = bandog.Worker(queue, execute, **options)
        threading.Thread(target=answer, args=(worker,), daemon=True).start()
        if taken["loop"] is not None:
            with asyncio.Runner(loop_factory=globals()[taken["loop"]]) as runner:
                runner.run(worker.run_async())
        else:
            worker.run(burst=bool(taken["burst"]))
    print("stopped", flush=True)


if __name__ == "__main__":
    main()
