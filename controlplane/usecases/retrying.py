"""Verbs whose transaction the database gave up for another one's sake are begun again.

Nothing of such a transaction was written or published: done once more, it is as if the caller had
come a moment later. A verb here writes in one transaction at most; of one that has other work to
do beside, the step that writes is begun `again` by itself.
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
    """A class of verbs, each of which is tried up to four times. It keeps its `Deps` in `_deps`."""
    for name, method in list(vars(verbs).items()):
        if inspect.iscoroutinefunction(method) and not name.startswith("_"):
            setattr(verbs, name, again(method))
    return verbs


def again(verb: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
    """A verb, or a step of one, that is tried up to four times; as in `retried`."""

    @wraps(verb)
    async def tried(self: Any, *args: Any, **kwargs: Any) -> Any:
        deps: Deps = self._deps
        waits, tries = Backoff(_FIRST_WAIT, _LONGEST_WAIT), 0
        while True:
            try:
                return await verb(self, *args, **kwargs)
            except Collided as error:
                tries += 1
                # A verb within this one has had its tries: they would multiply.
                error.given_up = error.given_up or tries == MOST_TRIES
                if error.given_up:
                    raise
            await deps.clock.sleep(waits.next())

    return tried
