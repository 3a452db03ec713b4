"""Persisted queries are stored by hash; others are refused."""

import hashlib

import pytest

from controlplane.platform.graphql.persisted import (
    MAX_QUERY_LENGTH,
    PersistedQueries,
    UnknownQueryHash,
)
from core.errors import Invalid


def named(query: str) -> dict[str, object]:
    hash = hashlib.sha256(query.encode()).hexdigest()
    return {"persistedQuery": {"version": 1, "sha256Hash": hash}}


def test_a_query_is_known_once_it_was_learned() -> None:
    known, query = PersistedQueries(), "{ me { id } }"
    with pytest.raises(UnknownQueryHash):
        known.resolve(None, named(query))
    assert known.resolve(query, named(query)) == query
    known.store(query, named(query))
    assert known.resolve(None, named(query)) == query


def test_a_query_without_a_hash_is_passed_on_and_not_kept() -> None:
    known = PersistedQueries()
    known.store("{ a }", None)
    assert known.resolve("{ a }", {}) == "{ a }" and known.resolve(None, None) is None
    with pytest.raises(UnknownQueryHash):
        known.resolve(None, named("{ a }"))


@pytest.mark.parametrize("hash", ["", "a" * 63, "G" * 64, None, 7, ["a"]])
def test_an_invalid_hash_is_refused(hash: object) -> None:
    with pytest.raises(Invalid, match="64 hexadecimal"):
        PersistedQueries().resolve("{ a }", {"persistedQuery": {"sha256Hash": hash}})


def test_the_hash_of_another_query_is_refused() -> None:
    with pytest.raises(Invalid, match="not the SHA-256"):
        PersistedQueries().resolve("{ a }", named("{ b }"))


def test_the_least_used_is_forgotten_and_the_longest_never_kept() -> None:
    known = PersistedQueries(max_queries=2)
    for query in ("{ a }", "{ b }"):
        known.store(query, named(query))
    known.resolve(None, named("{ a }"))
    known.store("{ c }", named("{ c }"))
    assert known.resolve(None, named("{ a }")) == "{ a }"
    long = "#" * (MAX_QUERY_LENGTH + 1)
    known.store(long, named(long))
    for query in ("{ b }", long):
        with pytest.raises(UnknownQueryHash):
            known.resolve(None, named(query))
