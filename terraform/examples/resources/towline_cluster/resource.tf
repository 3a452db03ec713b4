resource "towline_cluster" "eu" {
  name         = "eu-1"
  project      = towline_project.shop.name
  display_name = "Europe"
  tags         = { env = "prod" }
  metadata     = jsonencode({ zone = "eu-1a" })
  labels       = { team = "shop" }
}
