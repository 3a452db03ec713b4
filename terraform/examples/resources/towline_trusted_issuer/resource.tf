resource "towline_trusted_issuer" "shop_main" {
  name            = "shop-main"
  service_account = towline_service_account.ci.name
  issuer          = "https://token.actions.githubusercontent.com"
  audience        = "towline"
  subject         = "repo:acme/shop:*"
  claims          = { ref = "refs/heads/main" }
}
