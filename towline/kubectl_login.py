"""Credential plugin for kubectl: prints the token saved by `towline login`.

Implements `client.authentication.k8s.io/v1`. kubectl runs it on every command, so it imports little
of the standard library: a valid token costs reading one file. Network code is loaded on demand.
"""

import argparse
import fcntl
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from core.errors import TowlineError, Unauthenticated
from towline.contexts import ControlPlaneTarget, GlobalFlags, config_path, resolve

if TYPE_CHECKING:
    from towline.device_grant import IssuedToken

API_VERSION = "client.authentication.k8s.io/v1"
EXEC_INFO = "KUBERNETES_EXEC_INFO"
MARGIN_SECONDS = 60


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints the credential for `--url`; without one, prints an error and exits with 1."""
    parser = argparse.ArgumentParser(
        prog="towline-kubectl-login",
        description="Credentials for kubectl from `towline login`.",
        formatter_class=_fixed_width_formatter,
    )
    parser.add_argument("--url", required=True, help="URL of the control plane")
    parser.add_argument("--config", help="configuration file, as written by `towline login`")
    parsed = parser.parse_args(arguments)
    try:
        print(json.dumps(credential(GlobalFlags(url=parsed.url, config=parsed.config))))
    except TowlineError as error:
        print(f"towline-kubectl-login: {error.message}", file=sys.stderr)
        sys.exit(1)


def credential(
    global_flags: GlobalFlags, environ: Mapping[str, str] = os.environ
) -> dict[str, object]:
    """Builds the ExecCredential for a control plane. Raises Unauthenticated if not signed in."""
    target = resolve(global_flags, environ)
    if not _is_valid(target):
        target = _renew_token(global_flags, environ)
    status: dict[str, object] = {"token": target.token}
    if target.expires:
        ends = time.gmtime(target.expires)
        status["expirationTimestamp"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", ends)
    return {"apiVersion": API_VERSION, "kind": "ExecCredential", "status": status}


def _is_valid(target: ControlPlaneTarget) -> bool:
    ends = target.expires
    now = time.time()  # noqa: TID251 - a Clock would load asyncio
    return bool(target.token) and (not ends or now + MARGIN_SECONDS < ends)


def _renew_token(global_flags: GlobalFlags, environ: Mapping[str, str]) -> ControlPlaneTarget:
    """Gets and saves a new token; a lock makes sure that only one kubectl process asks for it."""
    path = os.path.abspath(config_path(global_flags, environ))
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    with open(f"{path}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        target = resolve(global_flags, environ)
        if _is_valid(target):
            return target
        granted = _request_token(target, environ)
        from towline.context_file import save_token

        return save_token(path, target, granted.token, granted.refresh, granted.expires)


def _fixed_width_formatter(prog: str) -> argparse.HelpFormatter:
    """Fixes the width: detecting the terminal's width would load shutil and its compressors."""
    return argparse.HelpFormatter(prog, width=98)


def _request_token(target: ControlPlaneTarget, environ: Mapping[str, str]) -> "IssuedToken":
    """Gets a token with the refresh token, else by asking the user to sign in."""
    from towline.device_grant import DeviceGrant

    device = DeviceGrant(target)
    granted = device.refresh(target.refresh) if target.refresh else None
    if granted is None and not _is_interactive(environ):
        raise Unauthenticated(f"not signed in: run `towline login {target.url}`")
    return granted or device.sign_in(_print_code)


def _print_code(page: str, code: str) -> None:
    print(f"To sign in, open {page} and approve {code}", file=sys.stderr, flush=True)


def _is_interactive(environ: Mapping[str, str]) -> bool:
    """Returns true if kubectl runs interactively."""
    try:
        return json.loads(environ.get(EXEC_INFO, "{}"))["spec"]["interactive"] is True
    except (ValueError, KeyError, TypeError):
        return False


if __name__ == "__main__":
    main()
