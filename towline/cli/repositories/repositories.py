"""`towline repos …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towline.cli.clusters.find import find_cluster
from towline.cli.manifests.managers import fields_of, warn_of_managers
from towline.cli.repositories import generated as operations
from towline.cli.repositories.find import find_repository
from towline.cli.repositories.generated import Repository
from towline.cli.repositories.registry_commands import POLL_STARTED
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Column, age_column, bytes_column, field, say, show
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.session import connect
from towline.input_files import read_secret
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import GitAttributes

app = typer.Typer(no_args_is_help=True, help="Git repositories.")

Name = Annotated[str, typer.Argument(help="URL or id of the repository.")]


class RepositoryOptions(OptionGroup):
    """Options of a repository's connection; secrets come from files."""

    username: Annotated[str | None, typer.Option(help="Username for HTTPS.")] = None
    password_file: Annotated[
        Path | None, typer.Option(help="File containing the password or access token.")
    ] = None
    private_key_file: Annotated[
        Path | None,
        typer.Option(help="File containing the private key, for SSH or a GitHub App (PEM)."),
    ] = None
    passphrase_file: Annotated[
        Path | None, typer.Option(help="File containing the passphrase of the private key.")
    ] = None
    app_id: Annotated[
        str | None, typer.Option(help="Id of the GitHub App that owns the private key.")
    ] = None
    installation_id: Annotated[
        str | None, typer.Option(help="Installation id of the GitHub App.")
    ] = None
    api_url: Annotated[str | None, typer.Option(help="URL of the Git host's REST API.")] = None
    client_certificate_file: Annotated[
        Path | None, typer.Option(help="File containing the TLS client certificate (PEM).")
    ] = None
    client_key_file: Annotated[
        Path | None, typer.Option(help="File containing the TLS client key (PEM).")
    ] = None
    authority_file: Annotated[
        Path | None,
        typer.Option(help="File containing the CA certificate of the Git server (PEM)."),
    ] = None
    known_hosts_file: Annotated[
        Path | None, typer.Option(help="File containing SSH known_hosts lines of the Git server.")
    ] = None
    proxy_file: Annotated[
        Path | None, typer.Option(help="File containing the URL of the proxy.")
    ] = None
    webhook_secret_file: Annotated[
        Path | None, typer.Option(help="File containing the webhook secret.")
    ] = None
    via: Annotated[
        str | None,
        typer.Option(help="Handle or id of a cluster; its agent connects to the Git server."),
    ] = None
    submodules: Annotated[bool | None, typer.Option(help="Also read the files of submodules.")] = (
        None
    )

    def attributes(self, api: GraphQLApi, url: str) -> "GitAttributes":
        """Builds the attributes for the API. Raises Invalid for an unreadable file."""
        return {
            "url": url,
            "username": self.username,
            "password": read_secret(self.password_file, "--password-file"),
            "privateKey": key_of(self.private_key_file, "--private-key-file"),
            "passphrase": read_secret(self.passphrase_file, "--passphrase-file"),
            "appId": self.app_id,
            "installationId": self.installation_id,
            "apiUrl": self.api_url,
            "clientCertificate": key_of(self.client_certificate_file, "--client-certificate-file"),
            "clientKey": key_of(self.client_key_file, "--client-key-file"),
            "authority": key_of(self.authority_file, "--authority-file"),
            "knownHosts": key_of(self.known_hosts_file, "--known-hosts-file"),
            "proxy": read_secret(self.proxy_file, "--proxy-file"),
            "webhookSecret": read_secret(self.webhook_secret_file, "--webhook-secret-file"),
            "viaClusterId": find_cluster(api, self.via)["id"] if self.via else self.via,
            "recurseSubmodules": self.submodules,
        }


COLUMNS: tuple[Column[Repository], ...] = (
    field("URL"),
    field("HEALTH"),
    field("AUTH", "signIn"),
    age_column("LAST POLL", "polledAt"),
    field("ERROR"),
)
DETAILS: tuple[Column[Repository], ...] = (
    *COLUMNS[:3],
    field("OWNER"),
    field("VIA", "viaClusterId"),
    bytes_column("SIZE", "size"),
    age_column("LAST POLL", "polledAt"),
    age_column("LAST FETCH", "pulledAt"),
    field("ERROR"),
)


add_list(app, "towline repos list", "List repositories.", operations.repositories, COLUMNS, "url")


@app.command("get")
def get_repository(context: typer.Context, repository: Name, output: Output = Format.TABLE) -> None:
    """Show a repository's health, local copy and last error.

    \b
    Example:
      towline repos get https://git.example.org/shop.git
    """
    show(find_repository(connect(context), repository), DETAILS, output, "url")


@app.command("create")
@option_groups
def create_repository(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="HTTPS or SSH URL to clone from.")],
    *,
    options: RepositoryOptions,
    output: Output = Format.TABLE,
) -> None:
    """Add a repository; read its secrets from files.

    \b
    Example:
      towline repos create https://git.example.org/shop.git --username bot --password-file token
      towline repos create git@git.example.org:shop.git --private-key-file id
    """
    api = connect(context)
    show(operations.create_repository(api, options.attributes(api, url)), COLUMNS, output, "url")


@app.command("update")
@option_groups
def update_repository(
    context: typer.Context,
    repository: Name,
    url: Annotated[str | None, typer.Option(help="New URL.")] = None,
    *,
    options: RepositoryOptions,
    output: Output = Format.TABLE,
) -> None:
    """Update only the given fields of a repository.

    With an empty --via, the control plane connects to the Git server directly again.

    \b
    Example:
      towline repos update https://git.example.org/shop.git --username bot --password-file token
    """
    api = connect(context)
    attributes = options.attributes(api, url or "")
    row = find_repository(api, repository)
    attributes["url"] = url or row["url"]
    show(operations.update_repository(api, row["id"], attributes), COLUMNS, output, "url")
    warn_of_managers(api, "GitRepository", row["url"], fields_of(attributes))


@app.command("delete")
def delete_repository(
    context: typer.Context, repository: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete a repository.

    \b
    Example:
      towline repos delete https://git.example.org/shop.git
    """
    confirm_deletion(f"repository {repository}", yes=yes)
    api = connect(context)
    row = find_repository(api, repository)
    show(operations.delete_repository(api, row["id"]), COLUMNS, output, "url")


@app.command("sync")
def sync_repository(
    context: typer.Context, repository: Name, output: Output = Format.TABLE
) -> None:
    """Check for new commits now.

    \b
    Example:
      towline repos sync https://git.example.org/shop.git
    """
    api = connect(context)
    row = find_repository(api, repository)
    show(operations.sync_repository(api, row["id"]), COLUMNS, output, "url")
    say(POLL_STARTED)


def key_of(path: Path | None, option: str) -> str | None:
    """Reads a private key from a file; OpenSSH requires a trailing line end."""
    text = read_secret(path, option)
    return None if text is None else f"{text}\n"
