resource "towline_service" "web" {
  name       = "web"
  cluster    = towline_cluster.eu.name
  project    = towline_project.shop.name
  namespace  = "shop"
  repository = towline_git_repository.shop.name
  ref        = "main"
  folder     = "web"

  contexts      = [towline_context.network.name]
  configuration = { color = "blue" }
  secrets       = { database = { secret = towline_secret.database.name } }

  helm = {
    release = "web"
    values  = yamlencode({ replicas = 2 })
  }

  options = {
    drift   = "REPORT"
    ignored = [{ kind = "Deployment", pointers = ["/spec/replicas"] }]
  }
}
