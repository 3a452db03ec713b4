"""The kind of manifests of configuration sources."""

from controlplane.configuration_sources.model.source import ConfigurationSource
from controlplane.configuration_sources.operations.sources import ConfigurationSourceChange
from controlplane.configuration_sources.ports import ConfigurationSourceStore
from controlplane.platform.kinds import OperatedKind
from controlplane.platform.names import LABEL_NAME


class ConfigurationSourceKind(OperatedKind[ConfigurationSource]):
    """Folders of manifests in Git, which the control plane applies."""

    name = "ConfigurationSource"
    name_form = LABEL_NAME
    change = ConfigurationSourceChange
    port = ConfigurationSourceStore
    model = ConfigurationSource
    hidden = ("name", "project_id")
    references = {"SourceSettings.service_account_id": "User"}
