"""Small manifests."""


def config_map(name: str, value: str = "1") -> str:
    """A ConfigMap with one value."""
    return f'apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{v: "{value}"}}\n'
