"""Entry of the archive `towline.pyz`, which has no control plane and no agent."""

import sys

from towline.cli import main as run


def main() -> None:
    """Runs one command; names the package that a command needs and the archive lacks."""
    try:
        run()
    except ModuleNotFoundError as error:
        message = f"this command needs {error.name}, which towline.pyz does not contain"
        print(f"towline: {message}; install the wheel of Towline", file=sys.stderr)
        sys.exit(1)
