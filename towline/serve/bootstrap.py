"""Prepares the data directory, and creates the first administrator's token or setup link."""

from pathlib import Path

import structlog

from controlplane.access.operations.users import Users
from controlplane.access.ports import TokenStore
from controlplane.authorization import SYSTEM
from controlplane.compose import ControlPlane
from controlplane.platform.ports import Store
from core.identity import TokenKind
from core.runtime.atomic_files import write_atomically

log = structlog.get_logger(__name__)

_FIRST_ADMIN = "admin"
_FOLDERS = ("tls", "git")
_FILES = ("towline.db*", "encryption.key", "admin.token", "setup.url", "tls/*.key")


def restrict_permissions(data: Path, *, embedded: bool) -> None:
    """Creates the data directory, and restricts Towline's files in it to their owner.

    `embedded`: the store is a SQLite file there; SQLite's other files inherit its mode. The mode of
    an existing data directory does not change.
    """
    data.mkdir(parents=True, exist_ok=True, mode=0o700)
    (data / "git").mkdir(exist_ok=True)
    if embedded:
        (data / "towline.db").touch(mode=0o600)
    for folder in _FOLDERS:
        _restrict_mode(data / folder, 0o700)
    for pattern in _FILES:
        for file in data.glob(pattern):
            _restrict_mode(file, 0o600)


async def write_first_token(plane: ControlPlane, path: Path) -> None:
    """Creates the first administrator, and writes a token to the file.

    If a process died after the commit, nobody can sign in. So it creates another token as long as
    the file is missing and no token was ever used.
    """
    users, store = plane.operations[Users], plane.context.store
    secret = await users.bootstrap()
    if secret is None and not _token_file_exists(path) and not await _any_token_used(store):
        secret = await users.create_token_for(SYSTEM, _FIRST_ADMIN, "first start")
    if secret is not None:
        write_atomically(path, secret.encode())
        log.info("created the first administrator", action="setup.admin", token_file=str(path))


async def write_setup_link(plane: ControlPlane, base: str, path: Path) -> None:
    """Writes a link for setting the first administrator's password, until it is set."""
    secret = await plane.foundation.sign_in.signin.setup_secret()
    if secret is None:
        _remove(path)
        return
    write_atomically(path, f"{base}/setup?token={secret}\n".encode())
    log.info("waiting for first-administrator setup", action="setup.link", link_file=str(path))


def _remove(path: Path) -> None:
    path.unlink(missing_ok=True)


def _token_file_exists(path: Path) -> bool:
    return path.exists()


async def _any_token_used(store: Store) -> bool:
    async with store.read() as tx:
        tokens = await tx[TokenStore].of_kind(TokenKind.USER)
    return any(token.last_used_at is not None for token in tokens)


def _restrict_mode(path: Path, mode: int) -> None:
    if not path.exists():
        return
    current_mode = path.stat().st_mode & 0o777
    try:
        if current_mode & ~mode:
            path.chmod(mode)
    except OSError:
        # Files that Kubernetes mounts belong to root, and the group must read them.
        if current_mode & 0o007:
            log.warning(
                "file is readable by all users, and its mode cannot be changed", path=str(path)
            )
