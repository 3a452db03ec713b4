"""Retries operations after a serialization failure or deadlock.

Such a transaction wrote and published nothing, so a retry is as if the caller came later. An
operation here writes in at most one transaction. For operations with other work, apply `again` to
the step that writes.
"""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Any, TypeVar

from controlplane.ports import Collided
from controlplane.usecases.deps import Deps
from fleet.runtime.backoff import Backoff

C = TypeVar("C")

MOST_TRIES = 4
_FIRST_WAIT, _LONGEST_WAIT = 0.05, 1.0


def retried(verbs: type[C]) -> type[C]:
    """Class decorator: retries each public operation, at most four tries.

    The class needs `_deps`.
    """
    for name, method in list(vars(verbs).items()):
        if inspect.iscoroutinefunction(method) and not name.startswith("_"):
            setattr(verbs, name, again(method))
    return verbs


def again(verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """Decorator for one operation or step: at most four tries, like `retried`."""

    @wraps(verb)
    async def tried(self: Any, *args: Any, **kwargs: Any) -> Any:
        deps: Deps = self._deps
        waits, tries = Backoff(_FIRST_WAIT, _LONGEST_WAIT), 0
        while True:
            try:
                return await verb(self, *args, **kwargs)
            except Collided as error:
                tries += 1
                # A nested operation has already used its tries; they must not multiply.
                error.given_up = error.given_up or tries == MOST_TRIES
                if error.given_up:
                    raise
            await deps.clock.sleep(waits.next())

    return tried
