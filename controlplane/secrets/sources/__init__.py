"""Kinds of external sources of secrets: one module for each kind, and its line in `SOURCES`.

Connections to external stores do not belong here.
"""

from collections.abc import Mapping

from controlplane.platform.plugin_settings import setting_fields
from controlplane.secrets.model.secret_source import SecretSource
from controlplane.secrets.sources.environment import EnvironmentSource
from controlplane.secrets.sources.kubernetes import KubernetesSource
from controlplane.secrets.sources.vault import VaultSource

SOURCES: tuple[type[SecretSource], ...] = (
    VaultSource,
    KubernetesSource,
    EnvironmentSource,
)
"""Kinds in the order of forms and of the published schema."""

BY_KIND = {source.kind: source for source in SOURCES}


def source_to_json(source: SecretSource) -> dict[str, str]:
    """Converts a source to its stored form."""
    return {"kind": source.kind, **source.values()}


def source_from_json(stored: Mapping[str, str]) -> SecretSource:
    """Reads a source from its stored form."""
    kind = BY_KIND[stored["kind"]]
    return kind(*(stored[member.public_name] for member in setting_fields(kind)))
