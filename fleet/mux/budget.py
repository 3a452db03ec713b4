"""How much received data may wait to be written out: of a process, of a link, of a user."""

from typing import Protocol

TOO_MANY = 429


class Holder(Protocol):
    """A stream as the budget sees it; `counted` is the budget's own note.

    `link` and `tenant` say whose share it takes part in; `stalled_since` is for the link.
    """

    held: int
    counted: int
    tenant: bytes
    stalled_since: float

    @property
    def link(self) -> object: ...

    def fail(self, code: int, text: str) -> None:
        """End the stream; it must call `Budget.forget`."""
        ...


class Share:
    """Bytes that some streams hold together, and the most that they may."""

    __slots__ = ("holders", "limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.holders: set[Holder] = set()

    def change(self, holder: Holder, by: int) -> None:
        """A stream holds so much more, or less."""
        self.used += by
        if holder.held:
            self.holders.add(holder)
        else:
            self.holders.discard(holder)

    def relieve(self) -> None:
        """Reset the streams that hold most until the rest is within the limit."""
        while self.used > self.limit:
            largest = max(self.holders, key=_held)
            largest.fail(TOO_MANY, "too much data waits for slow readers; try again later")


class Budget:
    """Bytes received and not yet written to the next socket, counted over many streams.

    One link may hold the limit divided by `links`, one tenant by `tenants`. From half of the
    limit on, windows stop growing and new streams get a small one; at a limit the streams that
    hold most of that share are reset.
    """

    def __init__(self, limit: int, *, links: int = 2, tenants: int = 4) -> None:
        self.limit = limit
        self._links, self._tenants = links, tenants
        self._all = Share(limit)
        self._shares: dict[tuple[str, object], Share] = {}

    @property
    def used(self) -> int:
        """Bytes held by all streams."""
        return self._all.used

    @property
    def tight(self) -> bool:
        """Half of the budget is in use."""
        return self._all.used * 2 >= self.limit

    def holders(self, link: object) -> tuple[Holder, ...]:
        """The streams of a link that hold something."""
        share = self._shares.get(("link", link))
        return tuple(share.holders) if share else ()

    def update(self, holder: Holder) -> None:
        """Count anew what a stream holds; called whenever that changes."""
        grown = holder.held > holder.counted
        self._change(holder, holder.held)
        if grown:
            for share in self._of(holder):
                share.relieve()

    def forget(self, holder: Holder) -> None:
        """The stream has ended; what it held is no longer counted."""
        if holder.counted:
            holder.held = 0
            self._change(holder, 0)

    def _change(self, holder: Holder, held: int) -> None:
        by, holder.counted = held - holder.counted, held
        for share in self._of(holder):
            share.change(holder, by)
        if not held:
            self._drop_unused(holder)

    def _of(self, holder: Holder) -> tuple[Share, Share, Share]:
        return (
            self._share(("tenant", holder.tenant), self._tenants),
            self._share(("link", holder.link), self._links),
            self._all,
        )

    def _share(self, key: tuple[str, object], part: int) -> Share:
        share = self._shares.get(key)
        if share is None:
            share = self._shares[key] = Share(self.limit // part)
        return share

    def _drop_unused(self, holder: Holder) -> None:
        for key in (("tenant", holder.tenant), ("link", holder.link)):
            if not self._shares[key].holders:
                del self._shares[key]


def _held(holder: Holder) -> int:
    return holder.held
