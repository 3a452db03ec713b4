"""How much received data may wait to be written out, over all links of a process."""

from typing import Protocol

TOO_MANY = 429


class Holder(Protocol):
    """A stream as the budget sees it; `counted` is the budget's own note."""

    held: int
    counted: int

    def fail(self, code: int, text: str) -> None:
        """End the stream; it must call `Budget.forget`."""
        ...


class Budget:
    """Bytes received and not yet written to the next socket, counted over many streams.

    From half of the limit on, windows stop growing and new streams get a small one; at the limit
    the streams that hold most are reset.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self._holders: set[Holder] = set()

    @property
    def tight(self) -> bool:
        """Half of the budget is in use."""
        return self.used * 2 >= self.limit

    def update(self, holder: Holder) -> None:
        """Count anew what a stream holds; called whenever that changes."""
        self.used += holder.held - holder.counted
        holder.counted = holder.held
        if holder.held:
            self._holders.add(holder)
        else:
            self._holders.discard(holder)
        while self.used > self.limit:
            largest = max(self._holders, key=_held)
            largest.fail(TOO_MANY, "too much data waits for slow readers; try again later")

    def forget(self, holder: Holder) -> None:
        """The stream has ended; what it held is no longer counted."""
        self.used -= holder.counted
        holder.counted = 0
        self._holders.discard(holder)


def _held(holder: Holder) -> int:
    return holder.held
