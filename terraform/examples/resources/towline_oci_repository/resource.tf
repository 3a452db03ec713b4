resource "towline_oci_repository" "shop" {
  name       = "oci://registry.example.org/team/shop"
  https_path = "https://git.example.org/shop"
}
