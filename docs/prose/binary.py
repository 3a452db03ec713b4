"""The program `vale`, built once from a pinned Go module into a cache outside the checkout."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from core.errors import Unavailable
from towline.demo.clusters.binaries import cache_folder
from towline.demo.clusters.go_toolchain import find_go

_MODULE = Path(__file__).with_name("module")
_PACKAGE = "github.com/vale-cli/vale/v3/cmd/vale"
_GRAMMARS = (
    "bash c cpp css elixir elm golang java javascript lua php protobuf python ruby rust "
    "typescript/tsx typescript/typescript yaml"
).split()
_STAND_IN = """package {name}

import sitter "github.com/smacker/go-tree-sitter"

func GetLanguage() *sitter.Language {{ return nil }}
"""


def ensure_vale() -> Path:
    """Return the program, building it first if needed (about 30 s).

    Raises Unavailable if Go is missing or the build fails.
    """
    digest = hashlib.sha256()
    for path in sorted(path for path in _MODULE.rglob("*") if path.is_file()):
        digest.update(path.read_bytes())
    program = cache_folder() / "vale" / digest.hexdigest()[:12] / "vale"
    program.parent.mkdir(parents=True, exist_ok=True)
    with (program.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.is_file():
            _build(program)
    return program


def _build(program: Path) -> None:
    go = find_go()
    with TemporaryDirectory() as folder:
        module = Path(folder) / "module"
        shutil.copytree(_MODULE, module)
        for grammar in _GRAMMARS:
            place = module / "grammars" / "sitter" / grammar
            place.mkdir(parents=True)
            (place / "grammar.go").write_text(_STAND_IN.format(name=place.name))
        flags = ["-trimpath", "-buildvcs=false", "-mod=readonly", "-ldflags", "-s -w"]
        fixed = {"CGO_ENABLED": "0", "GOWORK": "off", "GOFLAGS": "", "GOTOOLCHAIN": "local"}
        unfinished = program.with_name("vale.unfinished")
        done = subprocess.run(
            [go, "build", *flags, "-o", unfinished, _PACKAGE],
            cwd=module,
            env=os.environ | fixed,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise Unavailable(f"building vale failed: {done.stderr.strip().rpartition(chr(10))[2]}")
    unfinished.rename(program)
