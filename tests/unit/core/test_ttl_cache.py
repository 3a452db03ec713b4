"""Values that stay valid for some time, and the oldest ones of a full cache."""

from core.runtime.ttl_cache import TTLCache
from tests.fakes.clock import FakeClock


async def test_a_value_expires_at_its_time_or_at_an_earlier_one() -> None:
    clock = FakeClock()
    cache: TTLCache[str, bool] = TTLCache(clock, 60)
    cache.put("whole", False)
    cache.put("short", True, clock.monotonic() + 10)
    cache.put("long", True, clock.monotonic() + 100)
    assert [cache.get(key) for key in ("whole", "short", "long", "absent")] == [
        False, True, True, None,
    ]  # fmt: skip
    await clock.advance(10)
    assert [cache.get(key) for key in ("whole", "short")] == [False, None]
    await clock.advance(50)
    assert [cache.get(key) for key in ("whole", "long")] == [None, None]


def test_a_full_cache_drops_the_value_that_was_put_first() -> None:
    cache: TTLCache[str, int] = TTLCache(FakeClock(), 60, limit=2)
    for key in ("first", "second", "first", "third"):
        cache.put(key, len(cache))
    assert cache.get("second") is None
    assert (cache.get("first"), cache.get("third"), len(cache)) == (2, 2, 2)


async def test_forgotten_and_swept_values_are_gone() -> None:
    clock = FakeClock()
    cache: TTLCache[str, str] = TTLCache(clock, 60)
    cache.put("old", "1")
    cache.put("forgotten", "2")
    await clock.advance(30)
    cache.put("new", "3")
    cache.forget("forgotten")
    cache.forget("absent")
    await clock.advance(30)
    cache.sweep()
    assert len(cache) == 1
    assert cache.get("new") == "3"
