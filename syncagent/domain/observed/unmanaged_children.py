"""Unmanaged children: objects of controllers that are not ours, with nothing but their owner."""

from collections.abc import Collection
from dataclasses import dataclass, field

from core.spec.objects import GroupVersionKind, ObjectKey

# A kind, and one of the namespaces that its objects live in.
WatchPlace = tuple[GroupVersionKind, str]


@dataclass(slots=True)
class UnmanagedChildren:
    """Owners of unmanaged children by uid, in case an owner becomes ours later."""

    _owners: dict[ObjectKey, str] = field(default_factory=dict)
    _places: dict[str, dict[WatchPlace, int]] = field(default_factory=dict)

    def put(self, key: ObjectKey, api: GroupVersionKind, owner_uid: str) -> None:
        """Records an object of an owner that is not ours."""
        if self._owners.get(key) == owner_uid:
            return
        self.drop(key, api)
        self._owners[key] = owner_uid
        places, place = self._places.setdefault(owner_uid, {}), (api, key[2])
        places[place] = places.get(place, 0) + 1

    def drop(self, key: ObjectKey, api: GroupVersionKind) -> None:
        """Removes an object that is gone or ours now."""
        owner_uid = self._owners.pop(key, None)
        if owner_uid is None:
            return
        places, place = self._places[owner_uid], (api, key[2])
        places[place] -= 1
        if not places[place]:
            del places[place]
        if not places:
            del self._places[owner_uid]

    def keep_only(self, api: GroupVersionKind, namespace: str, keys: Collection[ObjectKey]) -> None:
        """Removes all other objects of a kind in a namespace, or in all namespaces if it is
        empty.
        """
        for key in list(self._owners):
            within = key[:2] == (api.group, api.kind) and namespace in ("", key[2])
            if within and key not in keys:
                self.drop(key, api)

    def places_of(self, owner_uid: str) -> list[WatchPlace]:
        """Lists the kinds and namespaces of an owner's children."""
        return list(self._places.get(owner_uid, ()))

    def __len__(self) -> int:
        return len(self._owners)
