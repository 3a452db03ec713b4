resource "towline_notification_rule" "failures" {
  name     = "failures"
  project  = towline_project.shop.name
  events   = ["service.failed"]
  severity = "ERROR"
  sinks    = [towline_notification_sink.hook.name]
  filters  = [{ cluster = towline_cluster.eu.name }]
}
