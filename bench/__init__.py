"""Benchmarks; each figure is compared with a baseline of the same run.

Product code must not import this package.
"""
