"""The audit log: hash chains, search, export and retention, and the origin of fields.

Other nouns write to it through `AuditTrail` only.
"""
