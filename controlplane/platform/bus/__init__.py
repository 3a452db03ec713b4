"""Events between parts and replicas, in memory or through Redis.

The store holds the truth; a lost event costs time only.
"""
