"""The control plane's port `Hosting` over the hosts that the git cache knows how to ask."""

from collections.abc import Callable, Collection
from dataclasses import asdict

from controlplane.domain.sets import OpenRequest
from fleet.errors import Invalid, Unavailable
from fleet.identity import RepositoryId
from fleet.source import RepositorySpec
from gitcache.write.hosting import Hosting, Provider


class OpenRequests:
    """Open requests of followed repositories, asked with what these are read with."""

    def __init__(self, hosting: Hosting, specs: Callable[[], Collection[RepositorySpec]]) -> None:
        self._hosting = hosting
        self._specs = specs

    async def open_requests(
        self, repository_id: RepositoryId, provider: str = ""
    ) -> list[OpenRequest]:
        """As `controlplane.ports.Hosting`."""
        spec = next((one for one in self._specs() if one.id == repository_id), None)
        if spec is None:
            raise Unavailable(f"repository {repository_id} is not followed yet")
        found = await self._hosting.open_requests(spec, _provider(provider))
        return [OpenRequest(**asdict(one)) for one in found]


def _provider(name: str) -> Provider | None:
    try:
        return Provider(name) if name else None
    except ValueError:
        known = ", ".join(one.value for one in Provider)
        raise Invalid(f"{name[:40]!r} is none of {known}", field="provider") from None
