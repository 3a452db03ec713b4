"""`towline secrets …`: reads values from standard input or a file, and never prints them."""

import base64
import sys
from pathlib import Path
from typing import Annotated

import typer

from core.errors import Conflict, Invalid, NotFound
from towline.cli import secret_documents as documents
from towline.cli.output import Column, Format, Row, field, say, show, since
from towline.cli.session import (
    GraphQLApi,
    Json,
    Output,
    Search,
    connect,
    every,
    find_project,
    find_service,
    parse_pairs,
)

app = typer.Typer(no_args_is_help=True, help="Secrets that only agents can decrypt.")


def problem_of(row: Row) -> str:
    """Problem of a secret: an error of its source, or the reason its rotation stopped."""
    rotation = row["rotation"] or {}
    held = rotation.get("reason") if rotation.get("phase") == "HELD" else ""
    return row["problem"] or held or ""


COLUMNS = (
    field("NAME"),
    field("VERSION", "currentVersion"),
    field("SOURCE", "source", "kind"),
    field("ROTATION", "rotation", "phase"),
    Column("PROBLEM", problem_of),
)
_VERSIONS = (
    field("VERSION", "number"),
    since("CREATED", "insertedAt"),
    field("BY", "actor"),
    since("REVOKED", "revokedAt"),
)
_USES = (
    field("SERVICE", "serviceName"),
    field("AS", "name"),
    field("SECRET", "secretName"),
    field("VERSION"),
    field("PINNED"),
    field("APPLIED"),
)
_KEYS = (field("ID"), field("WRAPPED BY", "kek"), field("USED FROM", "beginsAt"))
Name = Annotated[str, typer.Argument(help="Name of the secret.")]
_DECISIONS = ("resume", "revoke", "abort")


@app.command("list")
def list_secrets(
    context: typer.Context, query: Search = None, output: Output = Format.TABLE
) -> None:
    """List secrets, never their values.

    \b
    Example:
      towline secrets list
    """
    show(every(connect(context), documents.EVERY, q=query), COLUMNS, output, "name")


@app.command("set")
def set_value(
    context: typer.Context,
    name: Name,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", help="File containing the value (default: standard input)."),
    ] = None,
    project: Annotated[str | None, typer.Option(help="Project of a new secret.")] = None,
    batch: Annotated[
        int, typer.Option(min=0, help="Consumers to roll out to at a time; 0: all at once.")
    ] = 0,
    soak: Annotated[
        int, typer.Option(min=0, help="Seconds that all consumers must stay healthy.")
    ] = 60,
    automatic: Annotated[
        bool, typer.Option(help="Revoke the old value after the rollout, without approval.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Set the value of a secret; one trailing line end is removed.

    \b
    Example:
      towline secrets set db-password < password
      towline secrets set db-password --batch 1 --soak 300 < new-password
    """
    api = connect(context)
    given = file.read_bytes() if file else sys.stdin.buffer.read()
    attributes: Json = {"valueBase64": base64.b64encode(given.removesuffix(b"\n")).decode()}
    if project:
        attributes["projectId"] = find_project(api, project)["id"]
    if batch:
        attributes["rotation"] = {"batch": batch, "soakSeconds": soak, "automatic": automatic}
    saved = api.ask(documents.SAVE, name=name, attributes=attributes)["saveSecret"]
    show(saved, COLUMNS, output, "name")


@app.command("versions")
def list_versions(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the versions of a secret.

    \b
    Example:
      towline secrets versions db-password
    """
    api = connect(context)
    found = api.ask(documents.VERSIONS, id=_id(api, name))["secretVersions"]
    show(found, _VERSIONS, output, "number")


@app.command("consumers")
def list_consumers(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the services that use a secret, and the version that each has.

    \b
    Example:
      towline secrets consumers db-password
    """
    api = connect(context)
    found = api.ask(documents.CONSUMERS, id=_id(api, name))["secretConsumers"]
    show(found, _USES, output, "serviceName")


@app.command("use")
def use(
    context: typer.Context,
    service: Annotated[str, typer.Argument(help="Service, by cluster/name or id.")],
    secret: Annotated[
        list[str] | None,
        typer.Argument(help="Secret to use, as name=secret, or name=secret@version to pin it."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Set the secrets that a service uses; without arguments, remove all.

    \b
    Example:
      towline secrets use dev/shop password=db-password key=api-key@3
    """
    api = connect(context)
    wanted = [_wanted(api, name, text) for name, text in parse_pairs(secret, "secret").items()]
    id = find_service(api, service)["id"]
    show(api.ask(documents.USE, serviceId=id, uses=wanted)["useSecrets"], _USES, output, "name")


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
    found = api.ask(documents.OF_SERVICE, serviceId=find_service(api, service)["id"])
    show(found["serviceSecrets"], _USES, output, "name")


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
    word = decision.upper()
    found = api.ask(documents.DECIDE, id=_id(api, name), decision=word)["decideSecretRotation"]
    show(found, COLUMNS, output, "name")


@app.command("revoke")
def revoke(
    context: typer.Context,
    name: Name,
    version: Annotated[int, typer.Argument(help="Number of the version.")],
    output: Output = Format.TABLE,
) -> None:
    """Destroy the value of a version that no service uses.

    \b
    Example:
      towline secrets revoke db-password 1
    """
    api = connect(context)
    found = api.ask(documents.REVOKE, id=_id(api, name), number=version)["revokeSecretVersion"]
    show(found, COLUMNS, output, "name")


@app.command("refresh")
def refresh(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Refresh a secret from its source now.

    \b
    Example:
      towline secrets refresh db-password
    """
    api = connect(context)
    show(api.ask(documents.REFRESH, id=_id(api, name))["refreshSecret"], COLUMNS, output, "name")


@app.command("delete")
def delete(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Delete an unused secret and all its values.

    \b
    Example:
      towline secrets delete db-password
    """
    api = connect(context)
    show(api.ask(documents.DELETE, id=_id(api, name))["deleteSecret"], COLUMNS, output, "name")


@app.command("keys")
def keys(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List the keys that encrypt the store; fails if a value cannot be decrypted.

    \b
    Example:
      towline secrets keys
    """
    found = connect(context).ask(documents.KEYS)["encryptionKeys"]
    show(found["keys"], _KEYS, output, "id")
    say(
        f"wrapped by {found['kek']}; {found['outdated']} values are still encrypted with older keys"
    )
    if found["undecryptable"]:
        named = ", ".join(found["undecryptable"])
        raise Conflict(f"cannot decrypt {named}; set these secrets again")


@app.command("rotate-keys")
def rotate_keys(context: typer.Context, output: Output = Format.TABLE) -> None:
    """Create a new data key, and rewrap all other keys.

    \b
    Example:
      towline secrets rotate-keys
    """
    made = connect(context).ask(documents.ROTATE_KEYS)["rotateEncryptionKeys"]
    show(made, _KEYS, output, "id")


def _id(api: GraphQLApi, name: str) -> str:
    try:
        return api.ask(documents.ONE, name=name)["secret"]["id"]
    except NotFound:
        raise NotFound(f"could not find secret {name}") from None


def _wanted(api: GraphQLApi, name: str, text: str) -> Json:
    secret, _, version = text.partition("@")
    if version and not version.isdecimal():
        raise Invalid(f"{version!r} is not a version number", field="secret")
    found: Json = {"name": name, "secretId": _id(api, secret)}
    return found | ({"version": int(version)} if version else {})
