"""Operator tasks that work on the store of an installation directly."""

import asyncio
import os
import shutil
import subprocess
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from stat import S_IMODE

from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.access.operations.users import Users
from controlplane.access.ports import ProjectStore
from controlplane.audit.operations.audit_log import check_chains
from controlplane.authorization import SYSTEM
from controlplane.foundation import lay_foundation
from controlplane.platform.store.transaction import SqlStore
from controlplane.store.migrate import inspect, migrate, revisions
from controlplane.store.repositories import REPOSITORIES
from core.errors import TowlineError
from core.runtime.clock import Clock, SystemClock
from gitcache import compose as gitcache
from towline.certificate_authority import certificate_expiry
from towline.installation.check_result import CheckHealth, CheckResult, Finding
from towline.installation.database_checks import check_database
from towline.installation.store import is_missing, opened_engine, store_settings
from towline.settings import ServeSettings, git_settings

_MIN_FREE_BYTES = 1 << 30
_RENEWAL_PERIOD = timedelta(days=30)
_PRIVATE = ("encryption.key", "admin.token", "git/signing.key", "tls/ca.key", "tls/server.key")
_OLDEST_GIT = (2, 30)


def migrate_store(settings: ServeSettings) -> tuple[str | None, str]:
    """Migrates the store to this version's schema; returns the revisions before and after."""
    return asyncio.run(_migrate(settings))


def create_token(settings: ServeSettings, email: str, name: str) -> str:
    """Creates a token for a user. Raises NotFound for an unknown email address."""
    return asyncio.run(_create_token(settings, email, name))


def signing_key(settings: ServeSettings) -> str:
    """Public key (PEM) that verifies rendered manifests; creates the key pair if needed."""
    return gitcache.load_signer(git_settings(settings), SystemClock()).identity.pem


def rotate_signing_key(settings: ServeSettings) -> tuple[str, str, Path]:
    """Replaces the signing key; returns the old and the new fingerprint, and the file of the chain.

    Raises Invalid if the key is in no file of its own, Conflict after a rotation that failed.
    """
    file = gitcache.signing_key_file(git_settings(settings))
    old, new = file.rotate()
    return old.key_id, new.key_id, file.rotations_path


def run_checks(settings: ServeSettings, clock: Clock | None = None) -> list[CheckResult]:
    """Runs all checks of an installation; changes nothing."""
    checks: tuple[tuple[str, Callable[[], Finding]], ...] = (
        ("data", lambda: _check_folder(settings.data)),
        ("disk", lambda: _check_disk(settings.data)),
        ("secrets", lambda: _check_private_files(settings.data)),
        ("store", lambda: _check_store(settings, _check_schema)),
        ("audit", lambda: _check_store(settings, partial(_check_rows, _check_chains))),
        ("fences", lambda: _check_store(settings, partial(_check_rows, _check_fences))),
        ("certificate", lambda: _check_certificate(settings, clock or SystemClock())),
        ("git", _check_git),
    )
    return [_run_check(name, check) for name, check in checks]


def run_database_checks(settings: ServeSettings, clock: Clock | None = None) -> list[CheckResult]:
    """Runs the checks of the database alone; leaves nothing behind."""
    store = _run_check("store", lambda: _check_store(settings, _check_schema))
    if is_missing(settings) or store.health is CheckHealth.FAILED:
        return [store]
    return [store, *asyncio.run(_check_engine(settings, clock or SystemClock()))]


async def _check_engine(settings: ServeSettings, clock: Clock) -> list[CheckResult]:
    async with opened_engine(settings) as engine:
        return await check_database(engine, settings.data, clock)


async def _migrate(settings: ServeSettings) -> tuple[str | None, str]:
    async with opened_engine(settings) as engine:
        before, _ = await revisions(engine)
        await migrate(engine)
        return before, (await revisions(engine))[1]


async def _create_token(settings: ServeSettings, email: str, name: str) -> str:
    foundation = await lay_foundation(store_settings(settings), SystemClock())
    try:
        return await Users(foundation.context).create_token_for(SYSTEM, email, name)
    finally:
        await foundation.close()


def _run_check(name: str, check: Callable[[], Finding]) -> CheckResult:
    try:
        return CheckResult(name, *check())
    except (TowlineError, OSError, ValueError, subprocess.SubprocessError) as error:
        return CheckResult(name, CheckHealth.FAILED, str(error))


def _check_folder(data: Path) -> Finding:
    if not data.is_dir():
        return Finding(CheckHealth.WARNING, f"{data} does not exist; the first start creates it")
    if S_IMODE(data.stat().st_mode) & 0o007:
        return Finding(CheckHealth.WARNING, f"{data} is accessible to all users: run chmod 700")
    return Finding(CheckHealth.OK, str(data))


def _check_disk(data: Path) -> Finding:
    existing_folder = next(folder for folder in (data, *data.absolute().parents) if folder.exists())
    free = shutil.disk_usage(existing_folder).free
    text = f"{free / (1 << 30):.1f} GiB free in {data}"
    return Finding(CheckHealth.OK if free > _MIN_FREE_BYTES else CheckHealth.FAILED, text)


def _check_private_files(data: Path) -> Finding:
    files = [data / name for name in _PRIVATE if (data / name).exists()]
    open_to_others = [str(file) for file in files if _is_readable_by_others(file)]
    if open_to_others:
        names = ", ".join(open_to_others)
        return Finding(CheckHealth.FAILED, f"other users can read {names}: run chmod 600")
    return Finding(CheckHealth.OK, f"{len(files)} files, readable only by their owner")


def _is_readable_by_others(path: Path) -> bool:
    """Returns true if other users can read a file; a Kubernetes mount is readable by the group."""
    status = path.stat()
    is_mounted = status.st_uid == 0 and os.getuid() != 0
    return bool(S_IMODE(status.st_mode) & (0o007 if is_mounted else 0o077))


def _check_store(
    settings: ServeSettings, check: Callable[[AsyncEngine], Awaitable[Finding]]
) -> Finding:
    if is_missing(settings):
        return Finding(CheckHealth.WARNING, "no store yet; the first start creates it")

    async def run() -> Finding:
        async with opened_engine(settings) as engine:
            return await check(engine)

    return asyncio.run(run())


async def _check_schema(engine: AsyncEngine) -> Finding:
    try:
        current, expected = await inspect(engine)
    except SQLAlchemyError as error:
        text = f"{type(error).__name__}: the store does not respond"
        return Finding(CheckHealth.FAILED, text)
    if current != expected:
        text = f"schema {current}, expected {expected}: run `towline admin migrate`"
        return Finding(CheckHealth.WARNING, text)
    return Finding(CheckHealth.OK, f"schema {current}")


async def _check_rows(
    check: Callable[[SqlStore], Awaitable[Finding]], engine: AsyncEngine
) -> Finding:
    """Runs a check if the store has the current schema."""
    try:
        current, expected = await revisions(engine)
        if current != expected:
            return Finding(CheckHealth.WARNING, "not verified: the schema is not current")
        return await check(SqlStore(engine, REPOSITORIES))
    except OSError:
        # The check of the store has failed too, and has the reason.
        return Finding(CheckHealth.WARNING, "not verified: the store cannot be opened")
    except SQLAlchemyError as error:
        return Finding(CheckHealth.FAILED, f"{type(error).__name__}: cannot read the store")


async def _check_chains(store: SqlStore) -> Finding:
    rows, broken = await check_chains(store)
    if broken:
        defects_text = "; ".join(str(defect) for defect in broken)
        return Finding(
            CheckHealth.FAILED, f"{defects_text}. Compare the log with exports and sinks"
        )
    return Finding(CheckHealth.OK, f"{rows} rows, all hash chains intact")


async def _check_fences(store: SqlStore) -> Finding:
    async with store.read() as tx:
        projects = await tx[ProjectStore].all()
    names = sorted(project.name for project in projects if project.fence.unrestricted)
    if not names:
        return Finding(CheckHealth.OK, "every project has a fence")
    text = f"no fence limits the services of: {', '.join(names)} (towline projects fence)"
    return Finding(CheckHealth.OK, text)


def _check_certificate(settings: ServeSettings, clock: Clock) -> Finding:
    path = settings.tls.cert or settings.data / "tls" / "server.crt"
    if not path.exists():
        health = CheckHealth.FAILED if settings.tls.cert else CheckHealth.WARNING
        return Finding(health, f"{path} does not exist")
    end = certificate_expiry(path)
    remaining = end - clock.now()
    if remaining <= timedelta():
        text = f"{path} expired on {end:%Y-%m-%d}: {_renewal(settings)}"
        return Finding(CheckHealth.FAILED, text)
    if remaining <= _RENEWAL_PERIOD:
        text = f"{path} expires on {end:%Y-%m-%d}: {_renewal(settings)}"
        return Finding(CheckHealth.WARNING, text)
    return Finding(CheckHealth.OK, f"{path} expires on {end:%Y-%m-%d}")


def _renewal(settings: ServeSettings) -> str:
    """Describes how to renew the certificate."""
    if settings.tls.cert:
        return "renew it, and restart `towline serve`"
    return "restart `towline serve`, which renews it"


def _check_git() -> Finding:
    path = shutil.which("git")
    if path is None:
        return Finding(CheckHealth.FAILED, "git is not installed: install it")
    result = subprocess.run([path, "version"], capture_output=True, text=True, check=True)
    version = result.stdout.split()[2]
    new_enough = tuple(int(part) for part in version.split(".")[:2]) >= _OLDEST_GIT
    return Finding(CheckHealth.OK if new_enough else CheckHealth.FAILED, f"{path} {version}")
