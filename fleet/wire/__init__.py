"""The protocol between control plane and agents; what is sent lives in `v1`, its limits in `limits`."""
