"""Retries operations after a serialization failure or deadlock.

Such a transaction wrote and published nothing, so a retry is as if the caller came later. An
operation here writes in at most one transaction. For operations with other work, apply
`retry_on_collision` to the step that writes.
"""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

from controlplane.platform.batch import is_batch_open
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import TransactionConflict
from core.runtime.backoff import Backoff

C = TypeVar("C")

MAX_TRIES = 4
_FIRST_WAIT, _MAX_WAIT = 0.05, 1.0


def retry_operations(operations: type[C]) -> type[C]:
    """Class decorator: retries each public operation, at most four tries.

    The class needs `_context`.
    """
    for name, method in list(vars(operations).items()):
        if inspect.iscoroutinefunction(method) and not name.startswith("_"):
            setattr(operations, name, retry_on_collision(method))
    return operations


def retry_on_collision(operation: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Decorator for one operation or step: at most four tries, like `retry_operations`."""

    @wraps(operation)
    async def retrying(self: Any, *args: object, **kwargs: object) -> object:
        context: OperationContext = self._context
        backoff, tries = Backoff(_FIRST_WAIT, _MAX_WAIT), 0
        while True:
            try:
                return await operation(self, *args, **kwargs)
            except TransactionConflict as error:
                if is_batch_open():
                    # The whole batch is lost: only its own operation can begin it again.
                    raise
                tries += 1
                # A nested operation has already used its tries; they must not multiply.
                error.given_up = error.given_up or tries == MAX_TRIES
                if error.given_up:
                    raise
            await context.clock.sleep(backoff.next())

    return retrying
