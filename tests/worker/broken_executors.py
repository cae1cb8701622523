"""A module that a worker can import and its child processes cannot, as one that needs what only the parent set up."""

import sys

if "--multiprocessing-fork" in sys.orig_argv:
    message = "this module is broken here"
    raise ImportError(message)


def execute(_job, _token):
    """Never reached."""
