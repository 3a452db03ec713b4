"""Findings of the tools in one form, and temporarily accepted risks."""

import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any

ACCEPTED_RISKS = Path(__file__).parent / "accepted_risks.toml"
MAX_EXEMPTION = timedelta(days=180)


# Name and version.
Crate = tuple[str, str]


class AuditUnavailable(Exception):
    """A service was not reachable, or returned an unusable response."""


@dataclass(frozen=True, slots=True)
class KnownVulnerability:
    """Known vulnerability of one package; `ids`: its ids in all databases."""

    package: str
    version: str
    ids: tuple[str, ...]
    title: str
    remedy: str

    def __str__(self) -> str:
        names = ", ".join(self.ids)
        return f"{self.package} {self.version}: {names}: {self.title[:200]} ({self.remedy})"


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Number of audited packages, and their vulnerabilities."""

    packages: int
    findings: tuple[KnownVulnerability, ...]


@dataclass(frozen=True, slots=True)
class Exemption:
    """Accepted risk: a finding that does not apply here, until it must be reviewed."""

    id: str
    package: str
    reason: str
    until: date


def from_pip_audit(text: str) -> AuditReport:
    """Parses the output of `pip-audit -f json`. Unanswered: a package was skipped."""
    answered = _object(text, "dependencies")["dependencies"]
    # pip-audit reports packages unknown to its service as having no vulnerabilities.
    if skipped := [answer["skip_reason"] for answer in answered if "skip_reason" in answer]:
        raise AuditUnavailable(skipped[0])
    findings = [
        KnownVulnerability(
            package=answer["name"],
            version=answer["version"],
            ids=(vulnerability["id"], *sorted(vulnerability.get("aliases", ()))),
            title=vulnerability.get("description", ""),
            remedy=_fixed_in(vulnerability["fix_versions"]),
        )
        for answer in answered
        for vulnerability in answer["vulns"]
    ]
    return AuditReport(len(answered), tuple(findings))


def from_npm(text: str) -> AuditReport:
    """Parses the output of `npm audit --json`. Unanswered: the registry has no advisories."""
    answer = _object(text, "vulnerabilities")
    findings = [
        KnownVulnerability(
            package=advisory["name"],
            version=advisory["range"],
            ids=(advisory["url"].rpartition("/")[2],),
            title=advisory["title"],
            remedy=_replaced_by(package["fixAvailable"]),
        )
        for package in answer["vulnerabilities"].values()
        for advisory in package["via"]
        # A string names another package of this list, through which this one is vulnerable.
        if not isinstance(advisory, str)
    ]
    return AuditReport(answer["metadata"]["dependencies"]["total"], tuple(findings))


def from_osv(crate: Crate, text: str) -> tuple[KnownVulnerability, ...]:
    """Parses the response of OSV about one crate. AuditUnavailable: it is no such response."""
    try:
        advisories = [
            entry for entry in json.loads(text).get("vulns", ()) if "withdrawn" not in entry
        ]
    except (ValueError, AttributeError):
        raise AuditUnavailable(f"OSV sent no answer about {crate[0]}") from None
    return tuple(
        KnownVulnerability(
            package=crate[0],
            version=crate[1],
            ids=(entry["id"], *sorted(entry.get("aliases", ()))),
            title=entry.get("summary", ""),
            remedy=_fixed_in(_fixed_versions(entry, crate[0])),
        )
        for entry in advisories
    )


def _fixed_versions(entry: dict[str, Any], name: str) -> list[str]:
    return [
        event["fixed"]
        for affected in entry.get("affected", ())
        if affected["package"]["name"] == name
        for versions in affected.get("ranges", ())
        for event in versions["events"]
        if "fixed" in event
    ]


def exemptions(path: Path, today: date) -> list[Exemption]:
    """Reads the accepted risks. ValueError: an entry has no reason, or ends too late."""
    listed = [Exemption(**entry) for entry in tomllib.loads(path.read_text()).get("accepted", ())]
    for exemption in listed:
        if not exemption.reason.strip():
            raise ValueError(f"{path.name}: {exemption.id} has no reason")
        if exemption.until > today + MAX_EXEMPTION:
            raise ValueError(
                f"{path.name}: {exemption.id} ends more than {MAX_EXEMPTION.days} days from now"
            )
    return listed


def apply_exemptions(
    findings: Iterable[KnownVulnerability], accepted: Iterable[Exemption], today: date
) -> tuple[list[KnownVulnerability], list[Exemption]]:
    """Returns findings that are not accepted today, and exemptions without a finding."""
    found, listed = list(findings), list(accepted)
    standing = [
        finding
        for finding in found
        if not any(today <= each.until and _is_of(each, finding) for each in listed)
    ]
    idle = [each for each in listed if not any(_is_of(each, finding) for finding in found)]
    return standing, idle


def _is_of(exemption: Exemption, finding: KnownVulnerability) -> bool:
    return exemption.package == finding.package and exemption.id in finding.ids


def _object(text: str, needed: str) -> dict[str, Any]:
    try:
        answer = json.loads(text)
    except ValueError:
        answer = None
    if not isinstance(answer, dict) or needed not in answer:
        message = answer.get("message", text) if isinstance(answer, dict) else text
        last = str(message).strip().rpartition("\n")[2]
        raise AuditUnavailable(last[:200] or "the tool printed nothing")
    return answer


def _fixed_in(versions: list[str]) -> str:
    return f"fixed in {', '.join(versions)}" if versions else "not fixed yet"


def _replaced_by(fix: Any) -> str:
    if isinstance(fix, dict):
        return f"fixed by {fix['name']} {fix['version']}"
    return "fixed by an update" if fix else "not fixed yet"
