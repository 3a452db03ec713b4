"""What the objects of services name as secrets, sealed to the agent that applies them."""

from collections.abc import Mapping

from controlplane.domain.services import Service
from controlplane.ports import SecretValue
from fleet.errors import Conflict
from fleet.sealing import SealedSecret, seal


class NoSecrets:
    """Fills in `ports.ServiceSecrets` where nothing keeps any."""

    async def of(self, service: Service) -> Mapping[str, SecretValue]:
        return {}


def sealed_values(
    values: Mapping[str, SecretValue], service: Service, public: bytes | None
) -> list[SealedSecret]:
    """The values in boxes that only the agent opens, for this service only.

    Conflict: the agent has told no key; it is too old for secrets.
    """
    if not values:
        return []
    if public is None:
        raise Conflict("this service has secrets, and its agent has no key to seal them to")
    return [seal(public, service.id, name, one.version, one.plain) for name, one in values.items()]
