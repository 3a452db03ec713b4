resource "towline_role_binding" "on_call" {
  name       = "on-call"
  role       = "editor"
  subject    = { group = towline_group.devs.name }
  scope      = { project = towline_project.shop.name }
  expires_at = "2099-12-31T23:00:00Z"
  reason     = "On call during the sale"
}
