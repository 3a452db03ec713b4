"""`towline admin …`: works on the store directly, without a running control plane."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Invalid
from towline.cli.lazy_import import load
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import field, say, show
from towline.input_files import STDIN, read_text

if TYPE_CHECKING:
    from towline.settings import ServeSettings

app = typer.Typer(no_args_is_help=True, help="Operator commands, run on the control plane's host.")

Config = Annotated[Path | None, typer.Option(help="TOML settings file of `towline serve`.")]
Data = Annotated[Path | None, typer.Option(help="Data directory.")]
_FINDINGS = (field("CHECK"), field("HEALTH"), field("DETAIL", "text"))


@app.command("doctor")
def doctor(
    database: Annotated[
        bool,
        typer.Option(
            "--database",
            help="Only the database, in detail: server, writes, room, connections and clock.",
        ),
    ] = False,
    config: Config = None,
    data: Data = None,
    output: Output = Format.TABLE,
) -> None:
    """Check everything the installation depends on; exit code 1 if a check fails.

    The checks run beside a running control plane, and leave nothing behind.

    \b
    Example:
      towline admin doctor --data /var/lib/towline
      towline admin doctor --database --config /etc/towline/towline.toml
    """
    installation = load("towline.installation.tasks")
    run = installation.run_database_checks if database else installation.run_checks
    results = run(_settings(config, data))
    show(
        [asdict(finding) | {"health": finding.health.value} for finding in results],
        _FINDINGS,
        output,
        "check",
    )
    if any(finding.health == "failed" for finding in results):
        raise typer.Exit(1)


@app.command("migrate")
def migrate(config: Config = None, data: Data = None) -> None:
    """Migrate the store to the schema of this version; `serve` does this at startup.

    \b
    Example:
      towline admin migrate --data /var/lib/towline
    """
    old, new = load("towline.installation.tasks").migrate_store(_settings(config, data))
    say(f"schema {new}" if old == new else f"schema {old or 'none'} → {new}")


@app.command("backup")
def backup(
    file: Annotated[Path, typer.Argument(help="Backup file to create.")],
    recipient: Annotated[
        list[str], typer.Option(help="Public age key (age1…) that can decrypt it; repeatable.")
    ] = [],  # noqa: B006
    config: Config = None,
    data: Data = None,
) -> None:
    """Back up the store, keys, certificates and recordings to one file, without downtime.

    The file contains every secret of the installation. It contains no clones and no rendered
    manifests: the control plane recreates them from Git.

    \b
    Example:
      towline admin backup towline.backup --recipient age1… --data /var/lib/towline
    """
    work = load("towline.backup").backup
    with _row_counter() as progress:
        manifest = work(_settings(config, data), file, recipient, progress)
    say(
        f"{manifest.rows} rows and {len(manifest.files) - 1} files in {file}, "
        f"schema {manifest.schema_}"
    )
    if not recipient:
        say(
            "the backup is not encrypted: anyone who reads it can act as this control plane; "
            "use --recipient to encrypt it"
        )


@app.command("restore")
def restore(
    file: Annotated[Path, typer.Argument(help="File written by `towline admin backup`.")],
    identity: Annotated[
        Path | None, typer.Option(help="File with the age key that decrypts it.")
    ] = None,
    config: Config = None,
    data: Data = None,
) -> None:
    """Restore a backup into an empty installation; SQLite and PostgreSQL are interchangeable.

    First stop the control plane that the backup came from: two control planes with one identity
    would both command the fleet. The command verifies the audit log, and exits with 1 if a hash
    chain is broken.

    \b
    Example:
      towline admin restore towline.backup --identity key.txt --data /var/lib/towline
    """
    keys = load("core.age").parse_identities(read_text(identity, "--identity")) if identity else []
    work = load("towline.backup").restore
    with _row_counter() as progress:
        archive = work(_settings(config, data), file, keys, progress)
    manifest = archive.manifest
    say(
        f"{manifest.rows} rows of {manifest.made:%Y-%m-%d %H:%M} UTC, "
        f"{len(manifest.files) - 1} files"
    )
    say(
        f"audit: {archive.audit_rows} rows, "
        + ("; ".join(archive.broken) or "all hash chains intact")
    )
    if archive.broken:
        raise typer.Exit(1)


@app.command("create-token")
def create_token(
    email: Annotated[str, typer.Argument(help="Email address of the user.")] = "admin",
    name: Annotated[str, typer.Option(help="Name of the token.")] = "made by the operator",
    config: Config = None,
    data: Data = None,
) -> None:
    """Create a token for a user and print it once; use it when nobody can sign in.

    \b
    Example:
      towline admin create-token admin --data /var/lib/towline > token
    """
    print(load("towline.installation.tasks").create_token(_settings(config, data), email, name))


@app.command("signing-key")
def signing_key(config: Config = None, data: Data = None) -> None:
    """Print the public key that verifies rendered manifests, for agents that require signatures.

    \b
    Example:
      towline admin signing-key --data /var/lib/towline > signing.pem
    """
    print(load("towline.installation.tasks").signing_key(_settings(config, data)), end="")


@app.command("rotate-signing-key")
def rotate_signing_key(config: Config = None, data: Data = None) -> None:
    """Replace the signing key with one that the old one signs; then restart the control plane.

    Agents follow the signed rotation, also those that were away during several. Give the new
    fingerprint to clusters that join, and to the values of the agents' chart.

    \b
    Example:
      towline admin rotate-signing-key --data /var/lib/towline
    """
    rotate = load("towline.installation.tasks").rotate_signing_key
    old, new, chain = rotate(_settings(config, data))
    say(f"replaced {old}\n    with {new}\nkeep {chain} beside the key; restart the control plane")
    print(new)


@app.command("log-level")
def log_level(
    level: Annotated[str, typer.Argument(help="Log level: debug, info, warning or error.")],
    config: Config = None,
    data: Data = None,
) -> None:
    """Change the log level of the running control plane until it restarts.

    The command writes a file to the data directory. Anyone with write access there can change the
    level. With several replicas, only the replica that uses this directory changes.

    \b
    Example:
      towline admin log-level debug --data /var/lib/towline
    """
    settings = load("towline.settings")
    levels = [choice.value for choice in settings.LogLevel]
    if level not in levels:
        raise typer.BadParameter(
            f"unknown log level {level!r}; expected one of {', '.join(levels)}"
        )
    folder = _settings(config, data).data
    load("towline.serve.log_level").request_level(folder, settings.LogLevel(level))
    say(f"log level changes to {level} within 2 s")


@app.command("support-bundle")
def support_bundle(
    file: Annotated[Path, typer.Argument(help="File to create.")],
    log: Annotated[
        Path | None, typer.Option(help="File with log lines; - reads standard input.")
    ] = None,
    config: Config = None,
    data: Data = None,
) -> None:
    """Collect diagnostics for a support request into one file; it contains no secrets.

    The file contains versions, settings with masked secrets, the results of `admin doctor`, counts,
    and the last lines of the given log.

    \b
    Example:
      towline admin support-bundle towline-support.tar.gz --log towline.log
    """
    collect, settings = load("towline.support").write_support_bundle, _settings(config, data)
    if log is None:
        bundle = collect(settings, file)
    elif log == STDIN:
        bundle = collect(settings, file, sys.stdin)
    else:
        try:
            lines = log.open(errors="replace")
        except OSError as error:
            raise Invalid(f"cannot read {log}: {error.strerror}", field="--log") from None
        with lines:
            bundle = collect(settings, file, lines)
    say(f"{', '.join(bundle)} in {file}; review it before you share it")


@contextmanager
def _row_counter() -> Generator[Callable[[str, int], None], None, None]:
    """Shows a row counter on one line of a terminal; prints nothing elsewhere."""
    is_terminal = sys.stderr.isatty()

    def progress(table: str, rows: int) -> None:
        if is_terminal:
            print(f"\r\x1b[K{rows:>10} rows  {table}", end="", file=sys.stderr, flush=True)

    yield progress
    if is_terminal:
        print("\r\x1b[K", end="", file=sys.stderr)


def _settings(config: Path | None, data: Path | None) -> "ServeSettings":
    return load("towline.settings").load({"data": data}, config)
