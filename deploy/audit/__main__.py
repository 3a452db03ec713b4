"""Lists known vulnerabilities of all locked packages: `python -m deploy.audit FOLDER`.

Exit codes: 0 no vulnerabilities, or all accepted; 1 vulnerabilities found; 75 a service is not
reachable.
"""

import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

from deploy.audit import asking
from deploy.audit.findings import BORNE, Finding, Report, Unanswered, exemptions, judged
from fleet.runtime.clock import SystemClock

UNKNOWN = 75


def main(folder: Path, today: date, borne: Path = BORNE) -> int:
    """Audits all packages; prints findings and failures."""
    folder.mkdir(parents=True, exist_ok=True)
    locks = tracked("*.lock")
    asked: dict[str, Callable[[], Report]] = {
        "Python": lambda: asking.python(locks, folder.absolute()),
        "console": lambda: asking.node(asking.ROOT / "console"),
    }
    found: list[Finding] = []
    silent = 0
    for name, ask in asked.items():
        try:
            report = ask()
        except Unanswered as error:
            silent += 1
            print(f"platform: {name} was not audited: {error}")
            continue
        found += report.findings
        print(f"{name}: {report.packages} packages, {len(report.findings)} known vulnerabilities")
    standing, idle = judged(found, exemptions(borne, today), today)
    for finding in standing:
        print(finding)
    for each in () if silent else idle:
        print(f"{borne.name}: {each.id} of {each.package} is no longer found: remove it")
    return 1 if standing else UNKNOWN if silent else 0


def tracked(pattern: str) -> list[Path]:
    """Tracked files of the repository that match a pattern."""
    done = subprocess.run(
        ["git", "ls-files", pattern], cwd=asking.ROOT, capture_output=True, text=True, check=True
    )
    return [asking.ROOT / name for name in done.stdout.split()]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), SystemClock().now().date()))
