"""Builds the web console into the wheel, where npm is; says how to get it where npm is not."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

_PLACE = "towline/console"
_WITHOUT = (
    "{reason}: this wheel holds no web console. All else works, and the start page says how to "
    "build it"
)


class ConsoleHook(BuildHookInterface):
    """Runs `npm ci` and the console's build. `CONSOLE_BUILD=skip` leaves it out.

    An editable install takes what `make console` has built in the checkout.
    """

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Put the built console into a wheel. Raises if npm is there and the build fails."""
        if self.target_name != "wheel" or version == "editable":
            return
        source = Path(self.root, "console")
        npm = shutil.which("npm")
        if os.environ.get("CONSOLE_BUILD") == "skip":
            self._leave_out("CONSOLE_BUILD=skip is set")
        elif npm is None:
            self._leave_out("npm was not found (Node.js 20 or newer has it)")
        else:
            for words in (("ci", "--ignore-scripts", "--no-audit", "--no-fund"), ("run", "build")):
                subprocess.run([npm, *words], cwd=source, check=True)
            build_data["force_include"][str(source / "dist")] = _PLACE

    def _leave_out(self, reason: str) -> None:
        self.app.display_warning(_WITHOUT.format(reason=reason))
