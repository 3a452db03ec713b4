"""GraphQL documents for configuration flow; a test checks them against the schema."""

_FLOW = """
    serviceId problem exports { name type value shared }
    imports { alias sourceId export default value origin }
"""
FLOW = f"""query Flow($serviceId: ID!) {{
    serviceFlow(serviceId: $serviceId) {{ {_FLOW} }}
}}"""
AFFECTED = """query Affected($serviceId: ID!) {
    affectedServices(serviceId: $serviceId) { serviceId name clusterId }
}"""
VALUES = """query Values($serviceId: ID!) {
    serviceContextValues(serviceId: $serviceId) { context key value origin }
}"""
CONTEXT = """query Context($name: String!) {
    serviceContext(name: $name) {
        id name configuration types secretsByReference secretsVersion project { id name }
    }
}"""
OVERRIDES = """query Overrides($id: ID!) {
    contextOverrides(id: $id) { id layer placeId configuration actor updatedAt }
}"""
SAVE_FLOW = f"""mutation SaveFlow($serviceId: ID!, $attributes: ServiceFlowAttributes!) {{
    saveServiceFlow(serviceId: $serviceId, attributes: $attributes) {{ {_FLOW} }}
}}"""
SAVE_CONTEXT = """mutation SaveContext($name: String!, $attributes: ServiceContextAttributes!) {
    saveServiceContext(name: $name, attributes: $attributes) {
        id name configuration types secretsByReference secretsVersion
    }
}"""
