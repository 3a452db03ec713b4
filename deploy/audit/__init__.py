"""Finds known vulnerabilities of locked packages, of Python, of the console and of Rust.

Services are queried; there is no local list of advisories and no offline check.
"""
