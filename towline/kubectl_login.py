"""The credential plugin that kubectl starts on each command: prints the token saved by login.

Speaks `client.authentication.k8s.io/v1`. Standard library only, to be quick.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from fleet.errors import TowlineError, Unauthenticated
from towline.contexts import Wish, resolve

API_VERSION = "client.authentication.k8s.io/v1"


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the credential for `--url`; exit code 1 with a sentence where there is none."""
    parser = argparse.ArgumentParser(
        prog="towline-kubectl-login", description="Credentials for kubectl from `towline login`."
    )
    parser.add_argument("--url", required=True, help="the control plane")
    parser.add_argument("--config", type=Path, help="the file that `towline login` has written")
    given = parser.parse_args(arguments)
    try:
        print(json.dumps(credential(Wish(url=given.url, config=given.config))))
    except TowlineError as error:
        print(f"towline-kubectl-login: {error.message}", file=sys.stderr)
        sys.exit(1)


def credential(wish: Wish) -> dict[str, object]:
    """The ExecCredential for a control plane. Unauthenticated: nobody is signed in to it."""
    token = resolve(wish).token
    if not token:
        raise Unauthenticated(f"not signed in: run `towline login {wish.url}`")
    return {"apiVersion": API_VERSION, "kind": "ExecCredential", "status": {"token": token}}


if __name__ == "__main__":
    main()
