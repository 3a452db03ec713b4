resource "towline_cluster_source" "capi" {
  name            = "capi"
  project         = towline_project.shop.name
  cluster         = towline_cluster.eu.name
  service_account = towline_service_account.ci.name
  inventory       = "CLUSTER_API"
  namespace       = "fleet"
  selector        = "env in (prod,test)"
  tags            = { from = "capi" }
  tag_labels      = ["env"]
}
