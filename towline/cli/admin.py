"""`towline admin …`: on the store itself, without a running control plane."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from towline.cli.lazy import load
from towline.cli.output import Format, field, say, show
from towline.cli.session import Output

app = typer.Typer(no_args_is_help=True, help="For the operator, beside the control plane.")

Config = Annotated[Path | None, typer.Option(help="TOML file of `towline serve`.")]
Data = Annotated[Path | None, typer.Option(help="Folder of all state.")]
_FINDINGS = (field("CHECK"), field("HEALTH"), field("FOUND", "text"))


@app.command("doctor")
def doctor(config: Config = None, data: Data = None, output: Output = Format.TABLE) -> None:
    """Check all that the installation stands on; exit code 1 if something has failed.

    \b
    Example:
      towline admin doctor --data /var/lib/towline
    """
    found = load("towline.installation").examine(_settings(config, data))
    show([asdict(one) | {"health": one.health.value} for one in found], _FINDINGS, output, "check")
    if any(one.health == "failed" for one in found):
        raise typer.Exit(1)


@app.command("migrate")
def migrate(config: Config = None, data: Data = None) -> None:
    """Bring the store to the schema of this version; `serve` does it by itself.

    \b
    Example:
      towline admin migrate --data /var/lib/towline
    """
    before, after = load("towline.installation").migrate_store(_settings(config, data))
    say(f"schema {after}" if before == after else f"schema {before or 'none'} → {after}")


@app.command("create-token")
def create_token(
    email: Annotated[str, typer.Argument(help="Address of the user.")] = "admin",
    name: Annotated[str, typer.Option(help="What it is for.")] = "made by the operator",
    config: Config = None,
    data: Data = None,
) -> None:
    """Make a token for a user and print it, once; for when nobody can sign in.

    \b
    Example:
      towline admin create-token admin --data /var/lib/towline > token
    """
    print(load("towline.installation").create_token(_settings(config, data), email, name))


@app.command("signing-key")
def signing_key(config: Config = None, data: Data = None) -> None:
    """Print the public key of what signs renders, for agents that take only signed ones.

    \b
    Example:
      towline admin signing-key --data /var/lib/towline > signing.pem
    """
    print(load("towline.installation").signing_key(_settings(config, data)), end="")


def _settings(config: Path | None, data: Path | None) -> Any:
    return load("towline.settings").load({"data": data}, config)
