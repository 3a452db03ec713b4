"""The kind of manifests of configuration sources."""

from controlplane.configuration_sources.model.source import ConfigurationSource
from controlplane.configuration_sources.operations.sources import ConfigurationSourceChange
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.platform.kinds import OperatedKind


class ConfigurationSourceKind(OperatedKind[ConfigurationSource]):
    """Folders of manifests in Git, which the control plane applies."""

    name = "ConfigurationSource"
    change = ConfigurationSourceChange
    port = ConfigurationSourceStore
    model = ConfigurationSource
    hidden = ("name", "project_id")
    references = {"ConfigurationSourceChange.service_account_id": "User"}
