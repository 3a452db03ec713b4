"""Render groups: callers whose inputs agree on the parameters that a render reads.

The parameters that a render reads are known only afterwards, so lookups have two steps. The static
inputs give the sets of parameters that earlier renders have read. Each set with its current values
gives a digest of all inputs, the key of a result. A result is valid for every caller with the same
values, because the render would read the same parameters again. The empty set is always tried
last: most folders have no templates.
"""

from collections.abc import Mapping

from core.json_object import JsonMapping
from core.runtime.lru_cache import LRUCache
from gitcache.domain import parameters as parameter_sets
from gitcache.domain.inputs import digest_of_json, input_digest
from gitcache.domain.references import Reads
from gitcache.ports import Memo

_MAX_READ_SETS = 8
_MAX_CACHED_SETS = 20_000

Sets = list[list[list[str]]]


class RenderGroups:
    """Stores results by static inputs and by the parameters that were read."""

    def __init__(self, memo: Memo) -> None:
        self._memo = memo
        self._cached: LRUCache[str, Sets] = LRUCache(_MAX_CACHED_SETS)

    async def input_digests(self, static: str, parameters: JsonMapping) -> list[str]:
        """Returns the possible keys of a result for these inputs."""
        return [input_digest(static, reads, parameters) for reads in await self._read_sets(static)]

    async def group_key(self, static: str, parameters: Mapping[str, object]) -> str:
        """Returns a key that is equal for callers of the same group, as far as groups are known."""
        return input_digest(static, parameter_sets.union(await self._read_sets(static)), parameters)

    async def find(self, static: str, parameters: Mapping[str, object]) -> dict | None:
        """Returns a stored result for equivalent inputs, or None."""
        for digest in await self.input_digests(static, parameters):
            if (memo := await self._memo.get(digest)) is not None:
                return memo
        return None

    async def store_result(
        self, static: str, parameters: Mapping[str, object], reads: Reads, result: dict
    ) -> str:
        """Stores a result and the parameters that it read; returns its key."""
        digest = input_digest(static, reads, parameters)
        await self._memo.put(digest, result)
        await self.store_reads(static, reads)
        return digest

    async def store_reads(self, static: str, reads: Reads) -> None:
        """Stores only the parameters that were read."""
        sets = await self._read_sets(static)
        new = parameter_sets.union([reads])
        if new in sets:
            return
        latest = [new, *sets[:-1]]
        merged = latest if len(latest) <= _MAX_READ_SETS else [parameter_sets.union(latest)]
        await self._memo.put(_key(static), {"sets": merged})
        self._cached.put(static, [*merged, []])

    async def _read_sets(self, static: str) -> Sets:
        sets = self._cached.get(static)
        if sets is None:
            memo = await self._memo.get(_key(static))
            sets = [*memo["sets"], []] if memo else [[]]
            self._cached.put(static, sets)
        return sets


def _key(static: str) -> str:
    return digest_of_json({"readSets": static})
