"""The cache of the values that were used last."""

from core.runtime.lru_cache import LRUCache


def test_a_full_cache_drops_the_least_recently_used_value() -> None:
    cache: LRUCache[str, int] = LRUCache(3)
    for number, key in enumerate("abc"):
        cache.put(key, number)
    assert cache.get("a") == 0
    cache.put("b", 4)
    cache.put("d", 3)
    assert [cache.get(key) for key in "abcd"] == [0, 4, None, 3]
    cache.put("e", 5)
    assert [cache.get(key) for key in "abde"] == [None, 4, 3, 5]
