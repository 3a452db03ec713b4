"""The HTTP side of the proxy: connections of users, and the path of each request to a cluster.
`connection` receives the bytes. `parse` makes a `ParsedRequest` of the head. `handler` then takes
it through the stages: `authorize` makes an `AuthorizedRequest`, `record` counts it and writes its
audit row, and `forward` exchanges bytes with the agent. At the end, `forward` gives the filled
`RequestRecord` to `record`. `gateway` lists, revokes and drains the open requests.
"""
