"""Harness of the git cache's benchmarks: baselines, servers and replicas.

Measurements are in `bench/gitcache.py` and its siblings.
"""
