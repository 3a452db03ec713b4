"""Automatic persisted queries: clients send a query once and then only its hash.

A client sends the SHA-256 of a query in `extensions.persistedQuery`. If the hash is unknown, the
client sends hash and query together. Only queries of members are stored, up to a limit; a client
sends a forgotten query again. GET requests accept only a hash, so no query can hide in a link.
"""

import hashlib
from collections.abc import Mapping

from core.errors import Invalid
from core.json_object import JsonMapping
from core.runtime.lru_cache import LRUCache

MAX_QUERIES = 1_000
MAX_QUERY_LENGTH = 20_000

_HEX = frozenset("0123456789abcdef")


class UnknownQueryHash(Exception):
    """The hash is unknown; the client must send the query."""


class PersistedQueries:
    """Queries of one process by hash; the least recently used is forgotten first."""

    def __init__(self, max_queries: int = MAX_QUERIES) -> None:
        self._queries: LRUCache[str, str] = LRUCache(max_queries)

    def resolve(self, query: str | None, extensions: JsonMapping | None) -> str | None:
        """Returns the query of a request.

        UnknownQueryHash: the hash is unknown. Invalid: the hash is malformed or belongs to another
        query.
        """
        hash = _hash_of(extensions)
        if hash is None:
            return query
        if query is None:
            known = self._queries.get(hash)
            if known is None:
                raise UnknownQueryHash
            return known
        if hashlib.sha256(query.encode()).hexdigest() != hash:
            raise Invalid("is not the SHA-256 of the query", field="persistedQuery.sha256Hash")
        return query

    def store(self, query: str | None, extensions: JsonMapping | None) -> None:
        """Stores a query of a member with its hash. `resolve` must have checked the hash."""
        hash = _hash_of(extensions)
        if hash is not None and query is not None and len(query) <= MAX_QUERY_LENGTH:
            self._queries.put(hash, query)


def _hash_of(extensions: JsonMapping | None) -> str | None:
    extension = extensions.get("persistedQuery") if isinstance(extensions, Mapping) else None
    if extension is None:
        return None
    hash = extension.get("sha256Hash") if isinstance(extension, Mapping) else None
    if not isinstance(hash, str) or len(hash) != 64 or not _HEX.issuperset(hash):
        raise Invalid("must have 64 hexadecimal digits", field="persistedQuery.sha256Hash")
    return hash
