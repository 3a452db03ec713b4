"""`towline admin …`: on the store itself, without a running control plane."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
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


@app.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(help="The new file.")],
    recipient: Annotated[
        list[str], typer.Option(help="Public age key (age1…) that can open it; repeatable.")
    ] = [],  # noqa: B006
    config: Config = None,
    data: Data = None,
) -> None:
    """Write store, keys, certificates and recordings into one file, while all goes on.

    The file holds every secret of the installation. Clones and renders are not in it: they come
    again from git.

    \b
    Example:
      towline admin backup towline.backup --recipient age1… --data /var/lib/towline
    """
    work = load("towline.backup").backup
    with _rows() as progress:
        made = work(_settings(config, data), file, recipient, progress)
    say(f"{made.rows} rows and {len(made.files) - 1} files in {file}, schema {made.schema_}")
    if not recipient:
        say("it is not encrypted: whoever reads it can act as this control plane")


@app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(help="What `towline admin backup` has written.")],
    identity: Annotated[
        Path | None, typer.Option(help="File with the age key that opens it.")
    ] = None,
    config: Config = None,
    data: Data = None,
) -> None:
    """Fill an empty installation from a backup, of SQLite or PostgreSQL into either.

    Stop the control plane that the backup was taken of first: two of one identity would both
    speak for the fleet. The audit trail is verified; exit code 1 if a chain is not whole.

    \b
    Example:
      towline admin restore towline.backup --identity key.txt --data /var/lib/towline
    """
    keys = load("fleet.age").identities_in(identity.read_text()) if identity else []
    work = load("towline.backup").restore
    with _rows() as progress:
        found = work(_settings(config, data), file, keys, progress)
    made = found.manifest
    say(f"{made.rows} rows of {made.made:%Y-%m-%d %H:%M} UTC, {len(made.files) - 1} files")
    say(f"audit: {found.audit_rows} rows, " + ("; ".join(found.broken) or "every chain is whole"))
    if found.broken:
        raise typer.Exit(1)


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


@app.command("log-level")
def log_level(
    level: Annotated[str, typer.Argument(help="debug, info, warning or error.")],
    config: Config = None,
    data: Data = None,
) -> None:
    """Change how much the running control plane logs, until it ends.

    It is asked by a file in its data folder, so whoever may write there may change it; of several
    replicas only the one on that folder.

    \b
    Example:
      towline admin log-level debug --data /var/lib/towline
    """
    settings = load("towline.settings")
    words = [one.value for one in settings.LogLevel]
    if level not in words:
        raise typer.BadParameter(f"{level!r} is none of {', '.join(words)}")
    folder = _settings(config, data).data
    load("towline.serve.loglevel").ask_for(folder, settings.LogLevel(level))
    say(f"logs at level {level} within two seconds")


@app.command("support-bundle")
def support_bundle(
    file: Annotated[Path, typer.Argument(help="The new file.")],
    log: Annotated[
        Path | None, typer.Option(help="File with log lines, - for standard input.")
    ] = None,
    config: Config = None,
    data: Data = None,
) -> None:
    """Write how the installation is into one file, for whoever helps; no secret is in it.

    It holds versions, settings with secrets masked, what the doctor finds, counts, and the last
    lines of the log that is given.

    \b
    Example:
      towline admin support-bundle towline-support.tar.gz --log towline.log
    """
    collect, settings = load("towline.support").collect, _settings(config, data)
    if log is None:
        made = collect(settings, file)
    elif str(log) == "-":
        made = collect(settings, file, sys.stdin)
    else:
        with log.open(errors="replace") as lines:
            made = collect(settings, file, lines)
    say(f"{', '.join(made)} in {file}; look through it before you pass it on")


@contextmanager
def _rows() -> Generator[Callable[[str, int], None], None, None]:
    """Counts rows on one line of a terminal; silent elsewhere."""
    shown = sys.stderr.isatty()

    def progress(table: str, rows: int) -> None:
        if shown:
            print(f"\r\x1b[K{rows:>10} rows  {table}", end="", file=sys.stderr, flush=True)

    yield progress
    if shown:
        print("\r\x1b[K", end="", file=sys.stderr)


def _settings(config: Path | None, data: Path | None) -> Any:
    return load("towline.settings").load({"data": data}, config)
