"""GraphQL documents for secrets; a test checks them against the schema.

No document requests a value: the API never returns one.
"""

_SECRET = """
    id name description currentVersion newestVersion refreshSeconds refreshedAt problem
    source { kind store path key } project { id name }
    rotation {
        phase oldVersion newVersion batch soakSeconds timeoutSeconds automatic reason
        startedBy startedAt healthySince endedAt
    }
"""
_USE = """
    id name secretId secretName serviceId serviceName clusterId version pinned applied changedAt
"""
EVERY = f"""query Secrets($first: Int, $after: String, $q: String) {{
    secrets(first: $first, after: $after, q: $q) {{
        edges {{ node {{ {_SECRET} }} }} pageInfo {{ hasNextPage endCursor }}
    }}
}}"""
ONE = f"""query Secret($name: String!) {{
    secret(name: $name) {{ {_SECRET} }}
}}"""
VERSIONS = """query Versions($id: ID!) {
    secretVersions(id: $id) { id number insertedAt actor revokedAt }
}"""
CONSUMERS = f"""query Consumers($id: ID!) {{
    secretConsumers(id: $id) {{ {_USE} }}
}}"""
OF_SERVICE = f"""query OfService($serviceId: ID!) {{
    serviceSecrets(serviceId: $serviceId) {{ {_USE} }}
}}"""
KEYS = """query Keys {
    encryptionKeys { kek currentId outdated undecryptable keys { id kek insertedAt beginsAt } }
}"""
SAVE = f"""mutation Save($name: String!, $attributes: SecretAttributes!) {{
    saveSecret(name: $name, attributes: $attributes) {{ {_SECRET} }}
}}"""
DELETE = f"""mutation Delete($id: ID!) {{
    deleteSecret(id: $id) {{ {_SECRET} }}
}}"""
USE = f"""mutation Use($serviceId: ID!, $uses: [SecretUseAttributes!]!) {{
    useSecrets(serviceId: $serviceId, uses: $uses) {{ {_USE} }}
}}"""
REVOKE = f"""mutation Revoke($id: ID!, $number: Int!) {{
    revokeSecretVersion(id: $id, number: $number) {{ {_SECRET} }}
}}"""
DECIDE = f"""mutation Decide($id: ID!, $decision: SecretRotationDecision!) {{
    decideSecretRotation(id: $id, decision: $decision) {{ {_SECRET} }}
}}"""
REFRESH = f"""mutation Refresh($id: ID!) {{
    refreshSecret(id: $id) {{ {_SECRET} }}
}}"""
ROTATE_KEYS = """mutation RotateKeys {
    rotateEncryptionKeys { id kek insertedAt beginsAt }
}"""
