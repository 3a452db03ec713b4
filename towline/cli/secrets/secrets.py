"""`towline secrets …`: reads values from standard input or a file, and never prints them."""

import base64
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Conflict, Invalid
from towline.cli.clusters.find import find_cluster
from towline.cli.lazy_import import load
from towline.cli.projects.find import find_project
from towline.cli.secrets import generated as operations
from towline.cli.secrets.find import find_secret
from towline.cli.secrets.generated import DataKey, Secret, SecretUse, SecretVersions
from towline.cli.secrets.seal_manifests import seal_manifests
from towline.cli.services.find import find_service
from towline.cli.shell.confirmation import Yes, confirm_changes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Column, age_column, count, field, say, show
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.session import connect, found_or_none, parse_pairs
from towline.input_files import STDIN, read_bytes
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import SecretAttributes, SecretUseAttributes

app = typer.Typer(no_args_is_help=True, help="Secrets that only agents can decrypt.")


def problem_of(secret: Secret) -> str:
    """Problem of a secret: an error of its source, or the reason its rotation stopped."""
    rotation = secret["rotation"]
    held = rotation["reason"] if rotation and rotation["phase"] == "HELD" else ""
    return secret["problem"] or held or ""


COLUMNS: tuple[Column[Secret], ...] = (
    field("NAME"),
    field("VERSION", "currentVersion"),
    field("SOURCE", "source", "kind"),
    field("ROTATION", "rotation", "phase"),
    Column("PROBLEM", problem_of),
)
_VERSIONS: tuple[Column[SecretVersions], ...] = (
    field("VERSION", "number"),
    age_column("CREATED", "insertedAt"),
    field("BY", "actor"),
    age_column("REVOKED", "revokedAt"),
)
_USES: tuple[Column[SecretUse], ...] = (
    field("SERVICE", "serviceName"),
    field("AS", "name"),
    field("SECRET", "secretName"),
    field("VERSION"),
    field("PINNED"),
    field("APPLIED"),
)
_KEYS: tuple[Column[DataKey], ...] = (
    field("ID"),
    field("WRAPPED BY", "kek"),
    field("USED FROM", "beginsAt"),
)
Name = Annotated[str, typer.Argument(help="Name of the secret.")]
_DECISIONS = ("resume", "revoke", "abort")


add_list(
    app,
    "towline secrets list",
    "List secrets, never their values.",
    operations.secrets,
    COLUMNS,
    "name",
)


class RotationOptions(OptionGroup):
    """Options of a rotation."""

    batch: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Consumers to roll out to at a time; 0: all at once (default: as before).",
        ),
    ] = None
    soak: Annotated[
        int, typer.Option(min=0, help="Seconds that all consumers must stay healthy.")
    ] = 60
    automatic: Annotated[
        bool, typer.Option(help="Revoke the old value after the rollout, without approval.")
    ] = False


@app.command("set")
@option_groups
def set_value(
    context: typer.Context,
    name: Name,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", help="File containing the value (default: standard input)."),
    ] = None,
    project: Annotated[str | None, typer.Option(help="Project of a new secret.")] = None,
    generate: Annotated[
        int | None,
        typer.Option(min=16, max=1024, help="Generate a random value with this many characters."),
    ] = None,
    *,
    rotation: RotationOptions,
    output: Output = Format.TABLE,
) -> None:
    """Set the value of a secret, or generate it; one trailing line end is removed.

    \b
    Example:
      towline secrets set db-password < password
      towline secrets set session-key --generate 32
      towline secrets set db-password --batch 1 --soak 300 < new-password
    """
    if generate is not None and file is not None:
        raise Invalid("give either a file or --generate", field="--generate")
    attributes: SecretAttributes
    if generate is None:
        value = read_bytes(file or STDIN, "--file").removesuffix(b"\n")
        attributes = {"valueBase64": base64.b64encode(value).decode()}
    else:
        attributes = {"generate": {"length": generate}}
    api = connect(context)
    if project:
        attributes["projectId"] = find_project(api, project)["id"]
    if rotation.batch is not None:
        attributes["rotation"] = {
            "batch": rotation.batch,
            "soakSeconds": rotation.soak,
            "automatic": rotation.automatic,
        }
    show(operations.save_secret(api, name, attributes), COLUMNS, output, "name")


@app.command("seal")
def seal(
    context: typer.Context,
    name: Name,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", help="File containing the value (default: standard input)."),
    ] = None,
    project: Annotated[str, typer.Option(help="Project of the secret.")] = "default",
    key: Annotated[
        str | None,
        typer.Option(help="Public key of the installation (default: ask the control plane)."),
    ] = None,
) -> None:
    """Print a manifest with a value that only this installation can open, such as for Git.

    The value belongs to this name in this project. One trailing line end is removed. The control
    plane does not receive the value before the manifest is applied.

    \b
    Example:
      towline secrets seal db-password --project shop < password > db-password.yaml
      towline secrets seal db-password --key "$KEY" < password
    """
    plain = read_bytes(file or STDIN, "--file").removesuffix(b"\n")
    if not plain:
        raise Invalid("the value is empty", field="--file")
    try:
        public = base64.b64decode(key or operations.sealing_key(connect(context))["sealingKey"])
    except ValueError:
        raise Invalid("is not base64", field="--key") from None
    sealed = load("core.sealed_values").seal_value(public, project, name, plain)
    print("apiVersion: towline.io/v1\nkind: Secret")
    print(f"metadata: {{name: {name}, project: {project}}}\nspec:\n  sealedValue: {sealed}")


app.command("seal-manifests")(seal_manifests)


@app.command("versions")
def list_versions(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the versions of a secret.

    \b
    Example:
      towline secrets versions db-password
    """
    api = connect(context)
    show(operations.secret_versions(api, _id(api, name)), _VERSIONS, output, "number")


@app.command("consumers")
def list_consumers(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the services that use a secret, and the version that each has.

    \b
    Example:
      towline secrets consumers db-password
    """
    api = connect(context)
    uses = list(operations.secret_consumers(api, _id(api, name)))
    handles = {id: _handle(api, id) for id in {use["clusterId"] for use in uses}}
    service: Column[SecretUse] = Column(
        "SERVICE", lambda use: f"{handles[use['clusterId']]}/{use['serviceName']}"
    )
    show(uses, (service, *_USES[1:]), output, "serviceName")


def _handle(api: GraphQLApi, cluster_id: str) -> str:
    """Handle of a cluster; its id if the user may not read it."""
    cluster = found_or_none(lambda: find_cluster(api, cluster_id))
    return cluster["handle"] if cluster else cluster_id


@app.command("use")
def use(
    context: typer.Context,
    service: Annotated[str, typer.Argument(help="Service, by cluster/name or id.")],
    secret: Annotated[
        list[str] | None,
        typer.Argument(help="Secret to use, as name=secret, or name=secret@version to pin it."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="End the other uses without asking.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Set all secrets that a service uses; uses that are not named end.

    \b
    Example:
      towline secrets use dev/shop password=db-password key=api-key@3
    """
    api = connect(context)
    uses = [
        _secret_use(api, name, reference)
        for name, reference in parse_pairs(secret, "secret").items()
    ]
    id = find_service(api, service)["id"]
    names = {use["name"] for use in uses}
    ending = [use for use in operations.service_secrets(api, id) if use["name"] not in names]
    if ending:
        confirm_changes(
            f"End {count(len(ending), 'use')} of secrets by {service}",
            [f"no longer used: {use['name']} (secret {use['secretName']})" for use in ending],
            yes=yes,
        )
    show(operations.use_secrets(api, id, uses), _USES, output, "name")


@app.command("of")
def of_service(
    context: typer.Context,
    service: Annotated[str, typer.Argument(help="Service, by cluster/name or id.")],
    output: Output = Format.TABLE,
) -> None:
    """List the secrets that a service uses.

    \b
    Example:
      towline secrets of dev/shop
    """
    api = connect(context)
    show(operations.service_secrets(api, find_service(api, service)["id"]), _USES, output, "name")


@app.command("rotation")
def rotation(
    context: typer.Context,
    name: Name,
    decision: Annotated[str, typer.Argument(help="resume, revoke or abort.")],
    output: Output = Format.TABLE,
) -> None:
    """Resume or abort the rotation of a secret, or revoke the old value.

    \b
    Example:
      towline secrets rotation db-password revoke
    """
    if decision not in _DECISIONS:
        raise Invalid(f"must be one of {', '.join(_DECISIONS)}", field="decision")
    api = connect(context)
    decided = operations.decide_rotation(api, _id(api, name), decision.upper())
    show(decided, COLUMNS, output, "name")


@app.command("revoke")
def revoke(
    context: typer.Context,
    name: Name,
    version: Annotated[int, typer.Argument(help="Number of the version.")],
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Destroy the value of a version that no service uses.

    \b
    Example:
      towline secrets revoke db-password 1
    """
    confirm_deletion(f"version {version} of secret {name}", yes=yes)
    api = connect(context)
    revoked = operations.revoke_secret_version(api, _id(api, name), version)
    show(revoked, COLUMNS, output, "name")


@app.command("refresh")
def refresh(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Refresh a secret from its source now.

    \b
    Example:
      towline secrets refresh db-password
    """
    api = connect(context)
    show(operations.refresh_secret(api, _id(api, name)), COLUMNS, output, "name")


@app.command("delete")
def delete(
    context: typer.Context, name: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete an unused secret and all its values.

    \b
    Example:
      towline secrets delete db-password
    """
    confirm_deletion(f"secret {name} and all its values", yes=yes)
    api = connect(context)
    show(operations.delete_secret(api, _id(api, name)), COLUMNS, output, "name")


@app.command("keys")
def keys(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List the keys that encrypt the store; fails if a value cannot be decrypted.

    \b
    Example:
      towline secrets keys
    """
    key_state = operations.encryption_keys(connect(context))
    show(key_state["keys"], _KEYS, output, "id")
    say(
        f"wrapped by {key_state['kek']}; "
        f"{key_state['outdated']} values are still encrypted with older keys"
    )
    if key_state["undecryptable"]:
        undecryptable = ", ".join(key_state["undecryptable"])
        raise Conflict(f"cannot decrypt {undecryptable}; set these secrets again")


@app.command("rotate-keys")
def rotate_keys(context: typer.Context, output: Output = Format.TABLE) -> None:
    """Create a new data key, and rewrap all other keys.

    \b
    Example:
      towline secrets rotate-keys
    """
    show(operations.rotate_keys(connect(context)), _KEYS, output, "id")


def _id(api: GraphQLApi, name: str) -> str:
    return find_secret(api, name)["id"]


def _secret_use(api: GraphQLApi, name: str, reference: str) -> "SecretUseAttributes":
    secret, _, version = reference.partition("@")
    if version and not version.isdecimal():
        raise Invalid(f"{version!r} is not a version number", field="secret")
    secret_use: SecretUseAttributes = {"name": name, "secretId": _id(api, secret)}
    if version:
        secret_use["version"] = int(version)
    return secret_use
