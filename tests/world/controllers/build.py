"""Builds a program of a Go module that replaces modules by folders of its repository."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from core.errors import Unavailable
from tests.world.corpus import fetch
from towline.demo.clusters.binaries import cache_folder
from towline.demo.clusters.go_toolchain import find_go

_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}


@dataclass(frozen=True, slots=True)
class Module:
    """A version of a Go module."""

    path: str
    version: str

    def __str__(self) -> str:
        return f"{self.path}@{self.version}"


@dataclass(frozen=True, slots=True)
class Build:
    """A program of a module, and the modules in place of folders that it does not contain."""

    module: Module
    package: str
    program: str
    replaced: Mapping[str, Module]
    changed: tuple[str, str, str] = ("", "", "")
    """A file of the module, and a text with its replacement: an address that has no setting."""

    def folder(self) -> Path:
        """Returns a copy of the module with the program, built once.

        Unavailable: the module cannot be fetched, or the build failed.
        """
        folder = cache_folder() / "world" / str(self.module).replace("/", "_")
        if not (folder / self.program).exists():
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(fetch(str(self.module)), folder, copy_function=shutil.copyfile)
            for path in (folder, *folder.rglob("*")):
                path.chmod(path.stat().st_mode | 0o200)
            self.change(folder)
            for path, module in self.replaced.items():
                self._go(folder, "mod", "edit", f"-replace={path}={module}")
            options = ("-p=2", "-trimpath", "-buildvcs=false", "-ldflags=-s -w")
            self._go(folder, "build", *options, f"-o={self.program}", self.package)
        return folder

    def change(self, folder: Path) -> None:
        """Replaces the text of `changed`. Unavailable: the file has another text."""
        file, text, other = self.changed
        if file:
            source = (folder / file).read_text()
            if source.count(text) != 1:
                raise Unavailable(f"{file} of {self.module} has changed")
            (folder / file).write_text(source.replace(text, other))

    def _go(self, folder: Path, *arguments: str) -> None:
        command = ["nice", find_go(), *arguments]
        environment = os.environ | _ENVIRONMENT
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, check=False, env=environment
        )
        if done.returncode:
            raise Unavailable(f"building {self.program} failed: {done.stderr.strip()[-300:]}")
