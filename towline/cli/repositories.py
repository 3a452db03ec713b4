"""`towline repos …`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import Invalid
from towline.cli import documents
from towline.cli.output import Format, amount, field, show, since
from towline.cli.session import (
    GraphQLApi,
    Json,
    Output,
    Search,
    connect,
    every,
    find_cluster,
    find_repository,
)

app = typer.Typer(no_args_is_help=True, help="Git repositories.")

Name = Annotated[str, typer.Argument(help="URL or id of the repository.")]
PasswordFile = Annotated[
    Path | None, typer.Option(help="File containing the password or access token.")
]
PrivateKeyFile = Annotated[
    Path | None,
    typer.Option(help="File containing the private key, for SSH or a GitHub App (PEM)."),
]
PassphraseFile = Annotated[
    Path | None, typer.Option(help="File containing the passphrase of the private key.")
]
ClientCertificateFile = Annotated[
    Path | None, typer.Option(help="File containing the TLS client certificate (PEM).")
]
ClientKeyFile = Annotated[
    Path | None, typer.Option(help="File containing the TLS client key (PEM).")
]
AuthorityFile = Annotated[
    Path | None, typer.Option(help="File containing the CA certificate of the Git server (PEM).")
]
KnownHostsFile = Annotated[
    Path | None, typer.Option(help="File containing SSH known_hosts lines of the Git server.")
]
ProxyFile = Annotated[Path | None, typer.Option(help="File containing the URL of the proxy.")]
WebhookSecretFile = Annotated[Path | None, typer.Option(help="File containing the webhook secret.")]
Via = Annotated[
    str | None,
    typer.Option(help="Handle or id of a cluster; its agent connects to the Git server."),
]
Username = Annotated[str | None, typer.Option(help="Username for HTTPS.")]
AppId = Annotated[str | None, typer.Option(help="Id of the GitHub App that owns the private key.")]
Installation = Annotated[str | None, typer.Option(help="Installation id of the GitHub App.")]
ApiUrl = Annotated[str | None, typer.Option(help="URL of the Git host's REST API.")]
Submodules = Annotated[bool | None, typer.Option(help="Also read the files of submodules.")]
COLUMNS = (
    field("URL"),
    field("HEALTH"),
    field("AUTH", "signIn"),
    since("LAST POLL", "polledAt"),
    field("ERROR"),
)
DETAILS = (
    *COLUMNS[:3],
    field("OWNER"),
    field("VIA", "viaClusterId"),
    amount("SIZE", "size"),
    since("LAST POLL", "polledAt"),
    since("LAST FETCH", "pulledAt"),
    field("ERROR"),
)


@app.command("list")
def list_repositories(
    context: typer.Context, query: Search = None, output: Output = Format.TABLE
) -> None:
    """List repositories.

    \b
    Example:
      towline repos list
    """
    show(every(connect(context), documents.REPOSITORIES, q=query), COLUMNS, output, "url")


@app.command("get")
def get_repository(context: typer.Context, repository: Name, output: Output = Format.TABLE) -> None:
    """Show a repository's health, local copy and last error.

    \b
    Example:
      towline repos get https://git.example.org/shop.git
    """
    show(find_repository(connect(context), repository), DETAILS, output, "url")


@app.command("create")
def create_repository(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="HTTPS or SSH URL to clone from.")],
    username: Username = None,
    password_file: PasswordFile = None,
    private_key_file: PrivateKeyFile = None,
    passphrase_file: PassphraseFile = None,
    app_id: AppId = None,
    installation_id: Installation = None,
    api_url: ApiUrl = None,
    client_certificate_file: ClientCertificateFile = None,
    client_key_file: ClientKeyFile = None,
    authority_file: AuthorityFile = None,
    known_hosts_file: KnownHostsFile = None,
    proxy_file: ProxyFile = None,
    webhook_secret_file: WebhookSecretFile = None,
    via: Via = None,
    submodules: Submodules = None,
    output: Output = Format.TABLE,
) -> None:
    """Add a repository; read its secrets from files.

    \b
    Example:
      towline repos create https://git.example.org/shop.git --username bot --password-file token
      towline repos create git@git.example.org:shop.git --private-key-file id
    """
    api = connect(context)
    attributes = {"url": url, **_attributes(api, context.params)}
    made = api.ask(documents.CREATE_REPOSITORY, attributes=attributes)
    show(made["createGitRepository"], COLUMNS, output, "url")


@app.command("update")
def update_repository(
    context: typer.Context,
    repository: Name,
    url: Annotated[str | None, typer.Option(help="New URL.")] = None,
    username: Username = None,
    password_file: PasswordFile = None,
    private_key_file: PrivateKeyFile = None,
    passphrase_file: PassphraseFile = None,
    app_id: AppId = None,
    installation_id: Installation = None,
    api_url: ApiUrl = None,
    client_certificate_file: ClientCertificateFile = None,
    client_key_file: ClientKeyFile = None,
    authority_file: AuthorityFile = None,
    known_hosts_file: KnownHostsFile = None,
    proxy_file: ProxyFile = None,
    webhook_secret_file: WebhookSecretFile = None,
    via: Via = None,
    submodules: Submodules = None,
    output: Output = Format.TABLE,
) -> None:
    """Update only the given fields of a repository.

    With an empty --via, the control plane connects to the Git server directly again.

    \b
    Example:
      towline repos update https://git.example.org/shop.git --username bot --password-file token
    """
    api = connect(context)
    found = find_repository(api, repository)
    attributes = {"url": url or found["url"], **_attributes(api, context.params)}
    changed = api.ask(documents.UPDATE_REPOSITORY, id=found["id"], attributes=attributes)
    show(changed["updateGitRepository"], COLUMNS, output, "url")


def _attributes(api: GraphQLApi, given: Mapping[str, Any]) -> Json:
    """Builds the attributes that create and update share."""
    via = given["via"]
    texts = {
        "password": secret_of(given["password_file"], "--password-file"),
        "passphrase": secret_of(given["passphrase_file"], "--passphrase-file"),
        "proxy": secret_of(given["proxy_file"], "--proxy-file"),
        "webhookSecret": secret_of(given["webhook_secret_file"], "--webhook-secret-file"),
    }
    keys = {
        "privateKey": "private_key_file",
        "clientCertificate": "client_certificate_file",
        "clientKey": "client_key_file",
        "authority": "authority_file",
        "knownHosts": "known_hosts_file",
    }
    texts |= {
        name: key_of(given[option], f"--{option.replace('_', '-')}")
        for name, option in keys.items()
    }
    return texts | {
        "username": given["username"],
        "appId": given["app_id"],
        "installationId": given["installation_id"],
        "apiUrl": given["api_url"],
        "viaClusterId": find_cluster(api, via)["id"] if via else via,
        "recurseSubmodules": given["submodules"],
    }


@app.command("delete")
def delete_repository(
    context: typer.Context, repository: Name, output: Output = Format.TABLE
) -> None:
    """Delete a repository.

    \b
    Example:
      towline repos delete https://git.example.org/shop.git
    """
    api = connect(context)
    found = find_repository(api, repository)
    gone = api.ask(documents.DELETE_REPOSITORY, id=found["id"])["deleteGitRepository"]
    show(gone, COLUMNS, output, "url")


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
    found = find_repository(api, repository)
    show(
        api.ask(documents.SYNC_REPOSITORY, id=found["id"])["syncGitRepository"],
        COLUMNS,
        output,
        "url",
    )


def secret_of(path: Path | None, option: str) -> str | None:
    """Reads a secret from a file, without trailing line ends. Invalid: unreadable file."""
    if path is None:
        return None
    try:
        return path.read_text().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise Invalid(f"cannot read {path}: {error}", field=option) from None


def key_of(path: Path | None, option: str) -> str | None:
    """Reads a private key from a file; OpenSSH requires a trailing line end."""
    text = secret_of(path, option)
    return None if text is None else f"{text}\n"
