"""One control plane process: its parts joined, its listeners, its start and its end.

What one part needs of another is filled in here; no logic of the product.
"""
