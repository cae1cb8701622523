"""A process with a queue, and a forked child of it that stays. Says the child's number, and waits to be killed."""

import os
import signal
import sys

import bandog

queue = bandog.connect(sys.argv[1])
queue.enqueue()
child = os.fork()
if child == 0:
    while True:
        signal.pause()
print(child, flush=True)
signal.pause()
