resource "towline_notification_sink" "hook" {
  name  = "hook"
  audit = ["CHANGE"]

  settings = {
    kind    = "WEBHOOK"
    webhook = { url = var.hook_url, secret = var.hook_secret }
  }
}

variable "hook_url" {
  type      = string
  ephemeral = true
}

variable "hook_secret" {
  type      = string
  ephemeral = true
}
