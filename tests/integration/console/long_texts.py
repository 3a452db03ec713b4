"""Long texts in answers of the API: names, addresses and messages as long as some fleets have them.

Pages then show the widest rows that they have to fit into a window.
"""

import re

from playwright.sync_api import Page, Route

from core.json_object import JsonValue

_NAMES = frozenset(
    """audience author cluster decidedBy email givenBy handle issuer name namespace owner place
    project role service source stage subject target user""".split()
)
_TEXTS = frozenset(
    """agentAlarm description detail error folder hint hold message problem reason text title url
    why""".split()
)
NAME = "payments-settlement-reconciliation-eu-central-1"
TEXT = (
    "Deployment payments-settlement-reconciliation: 0 of 12 Pods are ready, because the image "
    "registry.example.org/payments/settlement-reconciliation:2026.11.30-1a2b3c4d cannot be pulled"
)


def lengthen_texts(page: Page) -> None:
    """Lengthens names and texts in answers of the API to queries."""
    page.route("**/gql", _answer)


def _answer(route: Route) -> None:
    if not re.search(r'"query":"\s*(query|\{)', route.request.post_data or ""):
        route.fallback()
        return
    response = route.fetch()
    answer = response.json()
    answer["data"] = _lengthened(answer.get("data"))
    route.fulfill(response=response, json=answer)


def _lengthened(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_lengthened(each) for each in value]
    if isinstance(value, dict):
        return {key: _lengthened_field(key, each) for key, each in value.items()}
    return value


def _lengthened_field(key: str, value: JsonValue) -> JsonValue:
    if not isinstance(value, str) or not value:
        return _lengthened(value)
    if key in _NAMES and len(value) < len(NAME):
        return f"{value}-{NAME}"[: len(NAME)]
    return f"{value} {TEXT}" if key in _TEXTS else value
