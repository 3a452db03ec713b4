resource "towline_context" "network" {
  name    = "network"
  project = towline_project.shop.name
  values  = jsonencode({ domain = "example.org", replicas = 3 })

  overrides = [
    { cluster = towline_cluster.eu.name, values = jsonencode({ replicas = 5 }) },
  ]
}
