"""Builds the documentation as a site: run `.venv/bin/python docs/build.py FOLDER`.

A dead link, a missing anchor, a page outside the navigation or a resource of another host fails
the build. MkDocs comes as a wheel, installed when it is missing.
"""

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from towline.demo.wheels import install

_HERE = Path(__file__).parent
_FOREIGN = re.compile(r"""<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=["']?(https?:)?//""")


def main(folder: str) -> int:
    """Build the site into `folder`; returns an exit code."""
    if any(find_spec(name) is None for name in ("mkdocs", "material")):
        print("installing the tools of the documentation from wheels", file=sys.stderr, flush=True)
        install(_HERE / "tools.lock")
    words = ["build", "--strict", "--quiet", "--config-file", str(_HERE.parent / "mkdocs.yml")]
    site = ["--site-dir", str(Path(folder).absolute())]
    # The theme advertises its successor in the output of every build.
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run([sys.executable, "-m", "mkdocs", *words, *site], check=False, env=quiet)
    pages = Path(folder).rglob("*.html")
    foreign = [page for page in pages if _FOREIGN.search(page.read_text())]
    for page in foreign:
        print(f"{page} loads a resource from another host", file=sys.stderr)
    return done.returncode or int(bool(foreign))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
