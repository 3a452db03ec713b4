"""Projection of a live object onto the fields that its manifest sets."""

from core.json_object import JsonObject, JsonValue

_NESTED = (dict, list)


def project(manifest: object, live: object) -> JsonValue:
    """Projects `live` onto the fields of `manifest`."""
    if isinstance(manifest, dict) and isinstance(live, dict):
        return {
            k: project(v, live[k]) if isinstance(v, _NESTED) else live[k]
            for k, v in manifest.items()
            if k in live
        }
    if isinstance(manifest, list) and isinstance(live, list):
        return _project_list(manifest, live)
    return live


def index_by_name(items: list[JsonValue]) -> JsonObject | None:
    """Indexes items by name; None unless every item has a unique name."""
    if not all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items):
        return None
    items_by_name = {item["name"]: item for item in items}
    return items_by_name if len(items_by_name) == len(items) else None


def _project_list(manifest: list[JsonValue], live: list[object]) -> list[object]:
    live_by_name = index_by_name(live)
    if live_by_name is not None and index_by_name(manifest) is not None:
        return [project(m, live_by_name[m["name"]]) for m in manifest if m["name"] in live_by_name]
    if len(manifest) == len(live):
        return [project(m, live_item) for m, live_item in zip(manifest, live, strict=True)]
    return live
