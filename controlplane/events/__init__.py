"""Wake-ups between parts of the control plane.

Only names of changed items travel here; the store holds the data. A lost wake-up costs time and
nothing else.
"""
