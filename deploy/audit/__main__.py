"""Lists known vulnerabilities of all locked packages: `python -m deploy.audit FOLDER`.

Exit codes: 0 no vulnerabilities, or all accepted; 1 vulnerabilities found; 75 a service is not
reachable.
"""

import subprocess
import sys
from collections.abc import Callable
from datetime import date
from pathlib import Path

from core.runtime.clock import SystemClock
from deploy.audit import tools
from deploy.audit.findings import (
    ACCEPTED_RISKS,
    AuditReport,
    AuditUnavailable,
    KnownVulnerability,
    apply_exemptions,
    exemptions,
)

UNKNOWN = 75
CRATES = tools.ROOT / "proxy/native/crates.lock"


def main(folder: Path, today: date, accepted: Path = ACCEPTED_RISKS) -> int:
    """Audits all packages; prints findings and failures."""
    folder.mkdir(parents=True, exist_ok=True)
    locks = [lock for lock in tracked("*.lock") if lock != CRATES]
    reports: dict[str, Callable[[], AuditReport]] = {
        "Python": lambda: tools.python(locks, folder.absolute()),
        "console": lambda: tools.node(tools.ROOT / "console"),
        "Rust": lambda: tools.crates(CRATES),
    }
    findings: list[KnownVulnerability] = []
    silent = 0
    for name, ask in reports.items():
        try:
            report = ask()
        except AuditUnavailable as error:
            silent += 1
            print(f"{name} was not audited: {error}")
            continue
        findings += report.findings
        print(f"{name}: {report.packages} packages, {len(report.findings)} known vulnerabilities")
    remaining, idle = apply_exemptions(findings, exemptions(accepted, today), today)
    for finding in remaining:
        print(finding)
    for exemption in () if silent else idle:
        print(
            f"{accepted.name}: {exemption.id} of {exemption.package} is no longer found: remove it"
        )
    return 1 if remaining else UNKNOWN if silent else 0


def tracked(pattern: str) -> list[Path]:
    """Tracked files of the repository that match a pattern."""
    done = subprocess.run(
        ["git", "ls-files", pattern], cwd=tools.ROOT, capture_output=True, text=True, check=True
    )
    return [tools.ROOT / name for name in done.stdout.split()]


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), SystemClock().now().date()))
