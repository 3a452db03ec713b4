terraform {
  required_version = ">= 1.11"
  required_providers {
    towline = { source = "towline.io/towline/towline" }
  }
}

provider "towline" {
  url = "https://towline.example.org"
  # The variable TOWLINE_TOKEN has the access token.
}
