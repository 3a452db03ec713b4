"""`towline oci-repos …`."""

from towline.cli.repositories import generated as operations
from towline.cli.repositories.find import find_oci_repository
from towline.cli.repositories.registry_commands import (
    RegistryCommands,
    RegistryContent,
    RegistryOperations,
    RegistryWords,
)
from towline.cli.shell.output import field

app = RegistryCommands(
    RegistryWords(
        "oci-repos",
        "an",
        "OCI repository",
        "Show the artifacts in use: the newest one of each tag, version range or digest.",
        "oci://registry.example.org/team/shop",
        "oci://registry.example.org/team/shop",
    ),
    RegistryOperations(
        operations.oci_repositories,
        find_oci_repository,
        operations.create_oci_repository,
        operations.update_oci_repository,
        operations.delete_oci_repository,
        operations.sync_oci_repository,
    ),
    RegistryContent(
        lambda repository: repository["artifacts"],
        (field("REF"), field("REVISION"), field("DIGEST"), field("COMMIT", "sha")),
        "ref",
    ),
).app("OCI repositories: artifacts with folders of manifests or charts.")
