resource "towline_agent_settings" "prod" {
  name     = "prod"
  selector = { tags = { env = "prod" } }
  priority = 10
  version  = "0.1.0"
  image    = "registry.example.org/towline:0.1.0"
  size     = "LARGE"
  agent_values = yamlencode({
    upgrade = { enabled = true }
  })
}
