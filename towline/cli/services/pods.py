"""The pods of a service."""

from collections.abc import Iterable

from core.errors import Invalid, NotFound
from towline.cli.services.generated import ServiceDetails, ServiceDetailsComponents

_MAX_NAMES = 10


def handle_of(service: ServiceDetails) -> str:
    """Returns the handle of a service's cluster. Raises Invalid if it has none."""
    if service["cluster"] is None:
        raise Invalid(f"service {service['name']} has no cluster")
    return service["cluster"]["handle"]


def pods_of(
    service: str, components: Iterable[ServiceDetailsComponents], name: str | None
) -> list[ServiceDetailsComponents]:
    """Returns the pods of a service, or only the named one.

    NotFound: there is none; the message names those that the service has.
    """
    pods = [row for row in components if row["kind"] == "Pod" and not row["group"]]
    if not pods:
        raise NotFound(
            f"service {service} has no pods; `towline services why {service}` shows the reason"
        )
    if matching := [row for row in pods if name in (None, row["name"])]:
        return matching
    shown = ", ".join(row["name"] for row in pods[:_MAX_NAMES])
    more = f" and {len(pods) - _MAX_NAMES} more" if len(pods) > _MAX_NAMES else ""
    raise NotFound(f"service {service} has no pod {name}; it has {shown}{more}")
