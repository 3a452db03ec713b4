"""Assigns repositories to replicas by rendezvous hashing with a load limit.

Pure and deterministic: replicas with the same members and keys compute the same result. A
replica that joins or leaves moves little more than its own share.
"""

import hashlib
import math
from collections.abc import Collection, Mapping

OVERLOAD = 1.25
"""Maximum load of a replica as a multiple of the mean."""


def rank_replicas(key: str, names: Collection[str]) -> list[str]:
    """Ranks replicas for a key by highest random weight."""
    return sorted(names, key=lambda name: (_weight(key, name), name), reverse=True)


def assign_to_replicas(keys: Collection[str], names: Collection[str]) -> Mapping[str, str]:
    """Assigns each key to a replica; empty without replicas.

    Each key gets its best-ranked replica with room, in an order that all replicas share.
    """
    if not names:
        return {}
    free_slots = dict.fromkeys(names, math.ceil(OVERLOAD * len(keys) / len(names)))
    assignments: dict[str, str] = {}
    for key in sorted(keys, key=lambda candidate: _weight(candidate, "")):
        best = next(name for name in rank_replicas(key, names) if free_slots[name])
        free_slots[best] -= 1
        assignments[key] = best
    return assignments


def _weight(key: str, name: str) -> bytes:
    return hashlib.blake2b(f"{key}\0{name}".encode(), digest_size=8).digest()
