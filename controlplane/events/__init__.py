"""How parts of the control plane wake each other.

Only names of what changed travel here; the store holds the truth, so a lost wake-up costs time
and nothing else.
"""
