"""One order for events and notifications, whose order and number differ from run to run.

Each controller acts in a second of its own, and reports some states again. On a busy machine the
scheduler and the controllers also report attempts that they repeat, so pictures have the steps of a
rollout only.
"""

import re
from collections.abc import Callable, Mapping

from playwright.sync_api import Page, Route

from core.json_object import JsonObject

_POD = re.compile(r"\bweb-[a-z0-9]{5,10}(-[a-z0-9]{5})?\b")


def hold_still(page: Page) -> None:
    """Sorts events and notifications in answers of the API, each only once."""
    page.route("**/gql", _answer)


def _answer(route: Route) -> None:
    asked = re.search(r'"operationName":"(\w+)"', route.request.post_data or "")
    sort = _SORTED.get(asked[1]) if asked else None
    if sort is None:
        route.fallback()
        return
    response = route.fetch()
    answer = response.json()
    sort(answer["data"])
    route.fulfill(response=response, json=answer)


def _sort_events(name: str) -> Callable[[JsonObject], None]:
    def sort(data: JsonObject) -> None:
        steps = [event for event in data[name] if event["reason"] in _ROLLOUT]
        data[name] = _distinct({_text(*map(event.get, _EVENT)): event for event in steps})

    return sort


def _sort_notifications(data: JsonObject) -> None:
    found = data["appNotifications"]
    texts = {_text(*map(edge["node"].get, _NOTIFICATION)): edge for edge in found["edges"]}
    found["edges"] = _distinct(texts)


def _distinct(by_text: Mapping[str, JsonObject]) -> list[JsonObject]:
    return [by_text[text] for text in sorted(by_text)]


def _text(*parts: str | None) -> str:
    """Text that people see, without the ids of Pods."""
    return _POD.sub("web-id", " ".join(filter(None, parts)))


_ROLLOUT = {"ScalingReplicaSet", "SuccessfulCreate", "Scheduled"}
_EVENT = ("kind", "reason", "message")
_NOTIFICATION = ("subject", "kind", "severity", "text")
_SORTED: Mapping[str, Callable[[JsonObject], None]] = {
    "AppNotifications": _sort_notifications,
    "ComponentEvents": _sort_events("componentEvents"),
    "ServiceEvents": _sort_events("serviceEvents"),
}
