"""The only import of the compiled module, so that its absence is explained in one place."""

from __future__ import annotations

import atexit

from bandog.errors import NativeModuleMissing

try:
    from bandog import _core as core
except ImportError as cause:
    message = (
        "the compiled part of bandog (bandog._core) cannot be loaded on this interpreter: install a wheel that was "
        f"built for it, with `python -m pip install --force-reinstall bandog` ({cause})"
    )
    raise NativeModuleMissing(message) from cause

# Registered early, and so called after the exit handlers of the program, which may still use a queue.
atexit.register(core.shut_down)

__all__ = ["core"]
