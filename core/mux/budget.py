"""Limits on received data that waits to be written: per process, link and user."""

from typing import Protocol

TOO_MANY = 429


class BudgetedStream(Protocol):
    """A stream, as the budget uses it; only the budget sets `counted`.

    `link` and `tenant` name the shares that the stream uses; `stalled_since` is for the link.
    """

    held: int
    counted: int
    tenant: bytes
    stalled_since: float

    @property
    def link(self) -> object: ...

    def fail(self, code: int, text: str) -> None:
        """Ends the stream; must call `ReceiveBudget.forget`."""
        ...


class BudgetShare:
    """Bytes that a group of streams holds, and their limit."""

    __slots__ = ("holders", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.holders: set[BudgetedStream] = set()

    def change(self, holder: BudgetedStream, delta: int) -> None:
        """Adds `delta` bytes (or removes them, if negative) for a stream."""
        self.used += delta
        if holder.held:
            self.holders.add(holder)
        else:
            self.holders.discard(holder)

    def reset_largest(self) -> None:
        """Resets the largest holders until the rest is within the limit."""
        while self.used > self.limit:
            largest = max(self.holders, key=_held_bytes)
            largest.fail(TOO_MANY, "too much data is waiting for slow readers; retry later")


class ReceiveBudget:
    """Bytes received but not yet written to the next socket, summed over many streams.

    A link may hold `limit / links` bytes, a tenant `limit / tenants`. Above half of the limit,
    windows stop growing and new streams get a small one. At a limit, the largest holders of
    that share are reset.
    """

    def __init__(self, limit: int, *, links: int = 2, tenants: int = 4) -> None:
        self.limit = limit
        self._links, self._tenants = links, tenants
        self._all = BudgetShare(limit)
        self._shares: dict[tuple[str, object], BudgetShare] = {}

    @property
    def used(self) -> int:
        """Bytes that all streams hold."""
        return self._all.used

    @property
    def is_tight(self) -> bool:
        """True if half of the budget is in use."""
        return self._all.used * 2 >= self.limit

    def holders(self, link: object) -> tuple[BudgetedStream, ...]:
        """Returns the streams of a link that hold data."""
        share = self._shares.get(("link", link))
        return tuple(share.holders) if share else ()

    def update(self, holder: BudgetedStream) -> None:
        """Updates the bytes that a stream holds, after each change."""
        has_grown = holder.held > holder.counted
        self._change(holder, holder.held)
        if has_grown:
            for share in self._shares_of(holder):
                share.reset_largest()

    def forget(self, holder: BudgetedStream) -> None:
        """Removes the bytes of an ended stream."""
        if holder.counted:
            holder.held = 0
            self._change(holder, 0)

    def _change(self, holder: BudgetedStream, held: int) -> None:
        delta, holder.counted = held - holder.counted, held
        for share in self._shares_of(holder):
            share.change(holder, delta)
        if not held:
            self._drop_unused(holder)

    def _shares_of(self, holder: BudgetedStream) -> tuple[BudgetShare, BudgetShare, BudgetShare]:
        return (
            self._share(("tenant", holder.tenant), self._tenants),
            self._share(("link", holder.link), self._links),
            self._all,
        )

    def _share(self, key: tuple[str, object], divisor: int) -> BudgetShare:
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = BudgetShare(self.limit // divisor)
        return share

    def _drop_unused(self, holder: BudgetedStream) -> None:
        for key in (("tenant", holder.tenant), ("link", holder.link)):
            if not self._shares[key].holders:
                del self._shares[key]


def _held_bytes(holder: BudgetedStream) -> int:
    return holder.held
