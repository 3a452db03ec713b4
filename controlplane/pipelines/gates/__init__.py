"""Kinds of gates, and the placeholders in their manifests.

The engine that evaluates gates does not belong here.
"""
