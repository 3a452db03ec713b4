"""Plans and carries out manifests.

Rights, limits and audit entries belong to the operations of each noun.
"""
