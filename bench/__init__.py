"""Benchmarks: each figure beside a baseline of the same run.

Nothing of the product may import this.
"""
