resource "towline_agent_settings" "global" {
  agent_values = yamlencode({
    resources = { requests = { memory = "64Mi" } }
  })
}
