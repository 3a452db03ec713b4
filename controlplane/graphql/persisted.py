"""Queries that clients send once and then name by their hash (automatic persisted queries).

A client sends the sha256 of a query in `extensions.persistedQuery`; is it not known here, it is
told so, and sends both. What is kept was sent by members, and is bounded: a hash that was forgotten
is learned again. By GET nothing but such a hash is taken, so no query can hide in a link.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from fleet.errors import Invalid

MOST_KEPT = 1_000
LONGEST_KEPT = 20_000

_HEX = frozenset("0123456789abcdef")


class UnknownQuery(Exception):
    """No query of this hash is known: the client sends it once."""


class PersistedQueries:
    """The queries of one process by their hashes, the least used forgotten first."""

    def __init__(self, most: int = MOST_KEPT) -> None:
        self._most = most
        self._known: OrderedDict[str, str] = OrderedDict()

    def text(self, query: str | None, extensions: Mapping[str, Any] | None) -> str | None:
        """The query that a request means.

        UnknownQuery: it names one that is not known. Invalid: the hash is none, or another's.
        """
        hash = _hash_of(extensions)
        if hash is None:
            return query
        if query is None:
            return self._find(hash)
        if hashlib.sha256(query.encode()).hexdigest() != hash:
            raise Invalid("is not the sha256 of the query", field="persistedQuery.sha256Hash")
        return query

    def learn(self, query: str | None, extensions: Mapping[str, Any] | None) -> None:
        """Keep a query that a member has sent with its hash, as `text` has checked."""
        hash = _hash_of(extensions)
        if hash is None or query is None or len(query) > LONGEST_KEPT:
            return
        self._known[hash] = query
        self._known.move_to_end(hash)
        while len(self._known) > self._most:
            self._known.popitem(last=False)

    def _find(self, hash: str) -> str:
        query = self._known.get(hash)
        if query is None:
            raise UnknownQuery
        self._known.move_to_end(hash)
        return query


def _hash_of(extensions: Mapping[str, Any] | None) -> str | None:
    given = extensions.get("persistedQuery") if isinstance(extensions, Mapping) else None
    if given is None:
        return None
    hash = given.get("sha256Hash") if isinstance(given, Mapping) else None
    if not isinstance(hash, str) or len(hash) != 64 or not _HEX.issuperset(hash):
        raise Invalid("needs 64 hexadecimal digits", field="persistedQuery.sha256Hash")
    return hash
