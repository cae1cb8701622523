"""Carrying out an operation on the caller's connection, in this thread or in this task.

An operation is a generator of steps: functions without arguments that run one statement and return its answer, or
something to await for it. A step may also be a call of the queue's own, which is waited for where the caller waits, and
awaited where it awaits. What a step raises passes through unchanged: it is the caller's driver that says it, and the
caller's transaction that ends of it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar, runtime_checkable

from bandog.errors import InvalidJob

if TYPE_CHECKING:
    from bandog.stores.connections import Connection

__all__ = ["Borrowed", "OwnCall", "Step", "Steps"]

_T = TypeVar("_T")
_Answer = TypeVar("_Answer")

Step: TypeAlias = Callable[[], Any]
Steps: TypeAlias = Generator[Step, Any, _T]


@runtime_checkable
class OwnCall(Protocol):
    """A call of the queue's own, under way."""

    def wait(self) -> Any:
        """Wait for its answer in this thread."""

    def __await__(self) -> Generator[Any, None, Any]: ...


class Borrowed(Generic[_T]):
    """An operation on the caller's connection. Nothing happens before it is waited for."""

    __slots__ = ("_connection", "_convert", "_operation")

    def __init__(
        self,
        connection: Connection,
        operation: Callable[[Connection], Steps[_Answer]],
        convert: Callable[[_Answer], _T],
    ) -> None:
        """``convert`` makes the caller's answer of the operation's."""
        self._connection = connection
        self._operation: Callable[[Connection], Steps[Any]] = operation
        self._convert: Callable[[Any], _T] = convert

    def wait(self) -> _T:
        """Carry it out in this thread."""
        if self._connection.is_async:
            message = (
                f"connection: {self._connection.name} has to be awaited, and this queue cannot: use a queue of "
                "bandog.connect_async(), or a synchronous connection"
            )
            raise InvalidJob(message, field="connection")
        steps = self._steps()
        try:
            step = next(steps)
            while True:
                value = step()
                step = steps.send(value.wait() if isinstance(value, OwnCall) else value)
        except StopIteration as done:
            return self._convert(done.value)

    def __await__(self) -> Generator[Any, None, _T]:
        return self._awaited().__await__()

    async def _awaited(self) -> _T:
        steps = self._steps()
        try:
            step = next(steps)
            while True:
                value = step()
                step = steps.send(await value if inspect.isawaitable(value) else value)
        except StopIteration as done:
            return self._convert(done.value)

    def _steps(self) -> Steps[Any]:
        yield self._connection.open
        return (yield from self._operation(self._connection))
