resource "towline_project" "shop" {
  name        = "shop"
  description = "The shop"

  bindings = {
    (towline_role.deployer.name) = { groups = [towline_group.devs.name] }
    viewer                       = { users = [towline_service_account.ci.name] }
  }

  fence = {
    sources      = [{ url = "https://git.example.org/*" }]
    destinations = [{ namespaces = ["shop"], clusters = ["*"] }]
    max_services = 20
  }
}
