"""`towline helm-repos …`."""

from towline.cli.repositories import generated as operations
from towline.cli.repositories.find import find_helm_repository
from towline.cli.repositories.registry_commands import (
    RegistryCommands,
    RegistryContent,
    RegistryOperations,
    RegistryWords,
)
from towline.cli.shell.output import field

app = RegistryCommands(
    RegistryWords(
        "helm-repos",
        "a",
        "chart repository",
        "Show the charts in use, and the newest version that each range allows.",
        "https://charts.example.org",
        "oci://registry.example.org/charts",
    ),
    RegistryOperations(
        operations.helm_repositories,
        find_helm_repository,
        operations.create_helm_repository,
        operations.update_helm_repository,
        operations.delete_helm_repository,
        operations.sync_helm_repository,
    ),
    RegistryContent(
        lambda repository: repository["charts"],
        (field("CHART"), field("RANGE"), field("VERSION"), field("DIGEST")),
        "chart",
    ),
).app("Chart repositories, also in OCI registries.")
