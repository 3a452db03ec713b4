"""The agent's rules for Kubernetes objects and services: order, health, ownership, drift.
Pure values and functions on parsed JSON; no IO, no clock, no tasks.
"""
