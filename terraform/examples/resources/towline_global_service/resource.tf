resource "towline_global_service" "monitoring" {
  name            = "monitoring"
  on_leave        = "DETACH"
  deletion_budget = 3

  selector = {
    tags     = { env = "prod" }
    excluded = [towline_cluster.eu.name]
  }

  template = {
    name      = "monitoring"
    namespace = "monitoring"
    helm = {
      repository = towline_helm_repository.stable.name
      chart      = "prometheus"
      version    = "25.0.0"
    }
  }
}
