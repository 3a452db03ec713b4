resource "towline_helm_repository" "stable" {
  name        = "https://charts.example.org/stable"
  https_path  = "https://charts.example.org"
  via_cluster = towline_cluster.eu.name
}
