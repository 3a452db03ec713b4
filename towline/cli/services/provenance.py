"""`towline provenance`: the chain from the commits of a service to its objects."""

from pathlib import Path
from typing import Annotated

import typer

from core.errors import Invalid, NotFound
from towline.cli.lazy_import import load
from towline.cli.services import generated as operations
from towline.cli.services.find import find_service
from towline.cli.services.generated import ServiceProvenance, ServiceProvenanceLinks
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, field, say, show
from towline.cli.shell.session import connect, first_found
from towline.input_files import read_bytes

app = typer.Typer(no_args_is_help=True, help="Provenance: from the commit to the object.")


def _agent_check(link: ServiceProvenanceLinks) -> str:
    agent = link["agent"]
    return f"{agent['state']} {agent['at']}: {agent['detail']}" if agent is not None else "-"


_LINKS: tuple[Column[ServiceProvenanceLinks], ...] = (
    field("LINK", "stage"),
    field("SUBJECT"),
    field("STATE"),
    field("DETAIL"),
    Column("AGENT", _agent_check),
)
_MAX_FILE_BYTES = 1 << 20
ServiceName = Annotated[str, typer.Argument(help="cluster/name, name, or id of the service.")]


@app.command("show")
def show_provenance(
    context: typer.Context, service: ServiceName, output: Output = Format.TABLE
) -> None:
    """Show commit, signer, renderer, bundle, approvals, agent and objects of a service.

    The control plane tells STATE and DETAIL. AGENT has the agent's own checks of the
    bundle's signature, of commits and of images, with their time. Exits with code 1 if a check of
    the chain failed.

    \b
    Example:
      towline provenance show prod-eu/web
    """
    links = _provenance(context, service)["links"]
    show(links, _LINKS, output, "subject")
    if any(link["state"] == "FAILED" for link in links):
        raise typer.Exit(1)


@app.command("export")
def export_attestation(context: typer.Context, service: ServiceName) -> None:
    """Print the attestation of a service's bundle: in-toto provenance in a DSSE envelope.

    \b
    Example:
      towline provenance export prod-eu/web > web.intoto.json
    """
    attestation = _provenance(context, service)["attestation"]
    if not attestation:
        raise NotFound(f"the bundle of service {service} is not signed")
    print(attestation)


@app.command("verify")
def verify_attestation(
    file: Annotated[Path, typer.Argument(help="File with the exported attestation.")],
    key: Annotated[Path, typer.Option(help="Public key of the render tier (PEM file).")],
) -> None:
    """Verify an exported attestation without a connection, and print its sources.

    \b
    Example:
      towline provenance verify web.intoto.json --key render-tier.pem
    """
    envelope, public_key = _read_each(file, key)
    statement = load("towline.attestation_file").verify_envelope(envelope, public_key)
    say(f"bundle {statement.digest}, rendered by {statement.renderer} {statement.tool}")
    for source in statement.sources:
        say(f"from {source.url}, {source.path or '/'} at {source.revision} ({source.digest})")
    say("verified")


def _provenance(context: typer.Context, service: str) -> ServiceProvenance:
    api = connect(context)
    id = find_service(api, service)["id"]
    return first_found(f"service {service}", lambda: operations.service_provenance(api, id))


def _read_each(*paths: Path) -> list[bytes]:
    """Reads all files. Invalid: names each file that cannot be read, or is too large."""
    contents, problems = [], []
    for path in paths:
        try:
            contents.append(read_bytes(path, limit=_MAX_FILE_BYTES))
        except Invalid as error:
            problems.append(error.message)
    if problems:
        raise Invalid("; ".join(problems))
    return contents
