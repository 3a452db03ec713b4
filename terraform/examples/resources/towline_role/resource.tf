resource "towline_role" "deployer" {
  name        = "deployer"
  description = "Deploys services"
  rules = [
    { verbs = ["READ", "WRITE"], kinds = ["SERVICE"] },
  ]
  kubernetes = {
    groups = ["deployers"]
  }
}
