"""Manifests of the form `towline/v1`: their plan and the differences.

No decisions: commands parse options, call the API and print.
"""
