resource "towline_secret" "database" {
  name        = "database"
  project     = towline_project.shop.name
  description = "Password of the database"
  value       = var.database_password
}

variable "database_password" {
  type      = string
  ephemeral = true
}
