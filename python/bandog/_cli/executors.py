"""Executors by name: ``app.jobs:send`` is what the module ``app.jobs`` calls ``send``.

A worker that runs the wrong thing would fail every job of its queues for good, so that what can be known before the
first job is looked at here. Child processes import an executor by its name too, so that it need not be picklable.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bandog._reports import failure
from bandog.tasks import Task

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ByName", "NoExecutorError", "find", "make_importable"]


class NoExecutorError(Exception):
    """A name that no executor has; the message says why."""


class ByName:
    """An executor that is imported by its name wherever a copy of this arrives."""

    def __init__(self, name: str) -> None:
        """``name`` as for :func:`find`."""
        self._name = name
        self._execute = find(name)

    def __call__(self, job: Any, token: Any) -> Any:
        """Call the executor."""
        return self._execute(job, token)

    def __reduce__(self) -> tuple[type[ByName], tuple[str]]:
        return ByName, (self._name,)


def make_importable(folder: Path) -> None:
    """Have modules of a folder importable, as ``python -m`` has. Not where the interpreter is told so (``-P``)."""
    if not sys.flags.safe_path and str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def find(name: str) -> Callable[[Any, Any], Any]:
    """The executor of a name.

    Args:
        name: ``module:attribute``; either may have dots.

    Raises:
        NoExecutorError: there is none, or what has this name cannot be called with a job and a token.
    """
    module_name, colon, path = name.partition(":")
    parts = path.split(".")
    if not colon or not all(part.isidentifier() for part in [*module_name.split("."), *parts]):
        message = f"{name!r} names no executor: give a module and its attribute, as in app.jobs:send"
        raise NoExecutorError(message)
    found: Any = _import(module_name)
    for number, part in enumerate(parts):
        try:
            found = getattr(found, part)
        except AttributeError:
            where = ".".join(parts[:number])
            owner = f"{module_name}:{where}" if where else f"module {module_name!r}"
            message = f"{owner} has no attribute {part!r}"
            raise NoExecutorError(message) from None
    _check(name, found)
    return cast("Callable[[Any, Any], Any]", found)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _broken(name, error) from error
        message = f"there is no module {error.name!r} in {str(Path.cwd())!r} or where Python looks for modules"
        raise NoExecutorError(message) from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        # Also what is meant to end a program (SystemExit): a module that is imported has no say in that.
        raise _broken(name, error) from error


def _broken(name: str, error: BaseException) -> NoExecutorError:
    return NoExecutorError(f"module {name!r} cannot be imported: {failure(error).reason}")


def _check(name: str, found: Any) -> None:
    if not callable(found):
        message = f"{name} cannot be called: it is of type {type(found).__name__}"
    elif isinstance(found, Task):
        message = f"{name} is a task, which takes arguments of its own: name its registry instead"
    elif inspect.isclass(found):
        message = f"{name} is a class: name a function, or an instance that can be called"
    elif not _takes_two(found):
        message = f"{name} cannot be called with two arguments, which are a job and its cancellation token"
    else:
        return
    raise NoExecutorError(message)


def _takes_two(found: Callable[..., Any]) -> bool:
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return True  # it cannot be told, as of some compiled functions
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True
