resource "towline_configuration_source" "apps" {
  name            = "apps"
  project         = towline_project.shop.name
  repository      = towline_git_repository.shop.name
  folder          = "configuration/apps"
  service_account = towline_service_account.ci.name
  mode            = "APPROVAL"
  prune           = true
  deletion_budget = 3
}
