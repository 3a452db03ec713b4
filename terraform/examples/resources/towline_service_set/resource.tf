resource "towline_service_set" "apps" {
  name     = "apps"
  project  = towline_project.shop.name
  selector = { tags = { env = "prod" } }

  generator = {
    folders = {
      repository = towline_git_repository.shop.name
      pattern    = "apps/*"
    }
  }

  template = {
    name       = "$${folder.name}"
    namespace  = "shop"
    repository = towline_git_repository.shop.name
    folder     = "$${folder.path}"
  }
}
