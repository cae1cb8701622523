"""A module that takes its time to import in a child process, as one that loads a large library."""

import sys
import time

from executors import act

__all__ = ["act", "execute"]

START = 0.8
"""Seconds."""

if "--multiprocessing-fork" in sys.orig_argv:
    time.sleep(START)


def execute(job, token):
    return act(job, token)
