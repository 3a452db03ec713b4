"""Ports of configuration: what its operations need of the store and of the world."""

from typing import Protocol

from controlplane.configuration.model.contexts import ServiceContext
from controlplane.configuration.model.flow import ServiceExport, ServiceImport
from controlplane.configuration.model.overrides import ContextOverride
from controlplane.platform.ports import Rows


class ContextStore(Rows[ServiceContext], Protocol):
    """Service contexts."""


class ServiceExportStore(Rows[ServiceExport], Protocol):
    """Values that services export."""


class ServiceImportStore(Rows[ServiceImport], Protocol):
    """Values that services import."""


class ContextOverrideStore(Rows[ContextOverride], Protocol):
    """Overrides of contexts by project, group and cluster."""
