"""Programs that a machine may lack and that come as wheels, installed when first needed."""

import shutil
import subprocess
import sys
from pathlib import Path

from fleet.errors import Unavailable


def install(lock: Path) -> None:
    """Install what `lock` (requirements with hashes) names into this environment.

    Unavailable: it could not be installed; with the last line of what the installer said.
    """
    done = subprocess.run([*_installer(), lock], capture_output=True, text=True, check=False)
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().rpartition("\n")[2]
        raise Unavailable(f"installing {lock.stem} failed: {reason}")


def _installer() -> list[str]:
    options = ["--quiet", "--require-hashes", "-r"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable, *options]
    return [sys.executable, "-m", "pip", "install", *options]
