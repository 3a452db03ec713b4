"""The store, assembled from the `store` of each noun, with migrations and backups.

Only what spans several nouns; each noun's tables are its own.
"""
