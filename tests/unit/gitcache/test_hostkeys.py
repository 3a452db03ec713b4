"""Fingerprints of ssh servers as people compare them."""

from gitcache.mirror.host_keys import fingerprints

KEY = "AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl"


def test_a_fingerprint_is_what_github_publishes() -> None:
    """github.com's own key and the fingerprint that its documentation shows."""
    (shown,) = fingerprints(f"# a comment\ngithub.com ssh-ed25519 {KEY}\nbroken\na b !!!\n")
    assert shown == "ssh-ed25519 SHA256:+DiY3wvvV6TuJJhbpZisF/zLDA0zPMSvHdkr4UvCOqU"
