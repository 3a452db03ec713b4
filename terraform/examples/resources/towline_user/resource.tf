resource "towline_user" "ada" {
  name         = "ada@example.org"
  display_name = "Ada Lovelace"
}
