"""Ports of generators."""

from typing import Protocol

from controlplane.generators.model.global_service import GlobalOverride, GlobalService
from controlplane.generators.model.namespaces import ManagedNamespace
from controlplane.generators.model.service_set import ServiceSet
from controlplane.platform.ports import Rows
from core.identity import RepositoryId
from core.spec.edits import OpenMergeRequest


class PullRequests(Protocol):
    """Git servers in their role as hosts of pull requests."""

    async def open_requests(
        self, repository_id: RepositoryId, provider: str = ""
    ) -> list[OpenMergeRequest]:
        """Returns all open pull requests, completely or not at all.

        Raises Invalid, NotFound or Unavailable. `provider` is github, gitlab or gitea; needed if
        the host's name does not identify it.
        """
        ...


class GlobalServiceStore(Rows[GlobalService], Protocol):
    """Global services."""


class GlobalOverrideStore(Rows[GlobalOverride], Protocol):
    """Overrides of global services by cluster."""


class ServiceSetStore(Rows[ServiceSet], Protocol):
    """Service sets."""


class ManagedNamespaceStore(Rows[ManagedNamespace], Protocol):
    """Managed namespaces."""
