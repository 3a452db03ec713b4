"""Known vulnerabilities of locked packages are reported unless an exemption is valid."""

import json
from datetime import date, timedelta
from pathlib import Path

import pytest

from deploy.audit.findings import (
    ACCEPTED_RISKS,
    AuditUnavailable,
    Exemption,
    KnownVulnerability,
    apply_exemptions,
    exemptions,
    from_npm,
    from_pip_audit,
)

TODAY = date(2026, 11, 22)
FOUND = KnownVulnerability(
    "jinja2", "2.10", ("PYSEC-2019-217", "CVE-2019-10906"), "Escape", "fixed in 2.10.1"
)
KNOWN = Exemption("CVE-2019-10906", "jinja2", "templates are our own", TODAY)
# As npm 11 tells of a package that is reached through another one.
THROUGH = {
    "auditReportVersion": 2,
    "vulnerabilities": {
        "mkdirp": {
            "name": "mkdirp",
            "severity": "moderate",
            "via": ["minimist"],
            "range": "0.4.1 - 0.5.1",
            "fixAvailable": True,
        },
        "minimist": {
            "name": "minimist",
            "severity": "moderate",
            "via": [
                {
                    "source": 1179,
                    "name": "minimist",
                    "title": "Prototype Pollution in minimist",
                    "url": "https://github.com/advisories/GHSA-vh95-rmgr-6w4m",
                    "range": "<0.2.1",
                }
            ],
            "range": "<=0.2.0",
            "fixAvailable": {"name": "mkdirp", "version": "0.5.6", "isSemVerMajor": False},
        },
    },
    "metadata": {"dependencies": {"total": 2}},
}


def test_a_package_that_the_service_does_not_know_is_no_sound_one() -> None:
    """The tool itself says "no known vulnerabilities" then."""
    said = {"dependencies": [{"name": "jinja2", "skip_reason": "not found: jinja2 (2.10)"}]}
    with pytest.raises(AuditUnavailable, match="not found"):
        from_pip_audit(json.dumps(said))


def test_a_vulnerability_is_listed_once_with_its_fix() -> None:
    """And not again for each package that it is reached through."""
    (found,) = from_npm(json.dumps(THROUGH)).findings
    assert str(found) == (
        "minimist <0.2.1: GHSA-vh95-rmgr-6w4m: Prototype Pollution in minimist "
        "(fixed by mkdirp 0.5.6)"
    )


@pytest.mark.parametrize("read", [from_npm, from_pip_audit])
@pytest.mark.parametrize(
    "said", ["", "Traceback\nOSError: away", "[]", "null", '{"message": "no"}']
)
def test_an_unreadable_audit_response_is_unavailable(said: str, read) -> None:
    with pytest.raises(AuditUnavailable):
        read(said)


@pytest.mark.parametrize(
    ("days", "package", "stands"),
    [(0, "jinja2", False), (1, "jinja2", True), (0, "markupsafe", True)],
    ids=["until its last day", "no longer", "of another package"],
)
def test_an_exemption_holds_for_one_package_until_its_day(
    days: int, package: str, stands: bool
) -> None:
    accepted = Exemption(KNOWN.id, package, KNOWN.reason, KNOWN.until)
    standing, _ = apply_exemptions([FOUND], [accepted], TODAY + timedelta(days=days))
    assert standing == ([FOUND] if stands else [])


def test_unused_exemptions_are_reported() -> None:
    assert apply_exemptions([], [KNOWN], TODAY) == ([], [KNOWN])


@pytest.mark.parametrize(
    ("reason", "until", "complaint"),
    [(" ", "2026-12-01", "no reason"), ("it is ours", "2028-01-01", "180 days")],
)
def test_no_exemption_is_for_ever_or_without_a_reason(
    tmp_path: Path, reason: str, until: str, complaint: str
) -> None:
    path = tmp_path / "accepted_risks.toml"
    path.write_text(
        f'[[accepted]]\nid = "CVE-1"\npackage = "a"\nreason = "{reason}"\nuntil = {until}\n'
    )
    with pytest.raises(ValueError, match=complaint):
        exemptions(path, TODAY)


def test_the_exemptions_that_there_are_can_be_read() -> None:
    assert all(one.reason for one in exemptions(ACCEPTED_RISKS, date.max - timedelta(days=200)))
