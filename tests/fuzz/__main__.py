"""Coverage-guided runs: `python -m tests.fuzz TARGET FOLDER [option of libFuzzer…]`.

FOLDER keeps what led to new code, and is begun with the seeds.
"""

import sys
from pathlib import Path

import atheris  # ty: ignore[import-not-found]

with atheris.instrument_imports(include=["core", "proxy"]):
    from tests.fuzz.targets import SEEDS, TARGETS


def main(name: str, folder: Path, *options: str) -> None:
    """Run one target until a bound of the options, or until it raises."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(SEEDS[name]):
        (folder / f"seed-{number}").write_bytes(seed)
    atheris.Setup([sys.argv[0], str(folder), *options], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
