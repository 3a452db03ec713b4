"""Installs programs from wheels on demand."""

import shutil
import subprocess
import sys
from pathlib import Path

from core.errors import Unavailable


def install(lock: Path) -> None:
    """Installs the requirements of `lock` (with hashes) into this environment.

    Unavailable: the installation failed; the message has the last line of the installer's output.
    """
    result = subprocess.run([*_installer(), lock], capture_output=True, text=True, check=False)
    if result.returncode:
        reason = (result.stderr or result.stdout).strip().rpartition("\n")[2]
        raise Unavailable(f"installing {lock.stem} failed: {reason}")


def _installer() -> list[str]:
    options = ["--quiet", "--require-hashes", "-r"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--python", sys.executable, *options]
    return [sys.executable, "-m", "pip", "install", *options]
