resource "towline_git_repository" "shop" {
  name       = "https://git.example.org/shop.git"
  project    = towline_project.shop.name
  submodules = true
  username   = "deploy"
  password   = var.git_password
}

variable "git_password" {
  type      = string
  ephemeral = true
}
