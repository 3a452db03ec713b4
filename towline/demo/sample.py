"""Sample repository of the demo: a small shop, with a folder for each stage."""

import json


def shop(version: str) -> dict[str, str | bytes | None]:
    """Returns the files of both stages for a version; prod has more replicas."""
    return {
        f"{stage}/{name}": text
        for stage, replicas in (("dev", 1), ("prod", 2))
        for name, text in _stage(stage, replicas, version).items()
    }


def _stage(stage: str, replicas: int, version: str) -> dict[str, str]:
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "settings"},
        "data": {"stage": stage, "version": version},
    }
    labels = {"app": "web"}
    container = {
        "name": "web",
        "image": f"registry.example.org/shop:{version}",
        "envFrom": [{"configMapRef": {"name": "settings"}}],
    }
    web = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"selector": labels, "ports": [{"port": 80}]},
    }
    objects = {"settings": settings, "web": web, "service": service}
    return {
        f"{name}.yaml": json.dumps(resource, indent=2) + "\n" for name, resource in objects.items()
    }
