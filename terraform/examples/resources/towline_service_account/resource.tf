resource "towline_service_account" "ci" {
  name         = "ci@example.org"
  display_name = "CI"
}
