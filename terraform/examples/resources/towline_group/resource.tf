resource "towline_group" "devs" {
  name        = "devs"
  description = "Developers of the shop"
  members     = [towline_service_account.ci.name]
}
