resource "towline_cluster_group" "prod" {
  name         = "prod"
  description  = "Production"
  tags         = { env = "prod" }
  clusters     = [towline_cluster.eu.name]
  max_changing = 2
}
