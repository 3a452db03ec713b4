"""Names of a service's pods."""

from collections.abc import Iterable

from towline.cli.services.generated import ServiceDetailsComponents

_MAX_NAMES = 10


def missing_pod_message(
    service: str, components: Iterable[ServiceDetailsComponents], name: str | None
) -> str:
    """Returns the message about a pod that a service does not have, with those it has."""
    names = [row["name"] for row in components if row["kind"] == "Pod" and not row["group"]]
    if not names:
        return f"service {service} has no pods; `towline services why {service}` shows the reason"
    shown = ", ".join(names[:_MAX_NAMES])
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"service {service} has no pod {name}; it has {shown}{more}"
