resource "towline_managed_namespace" "teams" {
  name             = "teams"
  selector         = { tags = { env = "prod" } }
  namespace_labels = { team = "shop" }
  quota            = { "requests.cpu" = "4" }
}
