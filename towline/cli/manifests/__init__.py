"""Commands of manifests: `towline apply`, `diff`, `delete`, `export`, `schema` and `explain`.

No decisions: the control plane reads documents, plans and applies them.
"""
