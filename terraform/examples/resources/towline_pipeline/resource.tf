resource "towline_pipeline" "shop" {
  name    = "shop"
  project = towline_project.shop.name

  stages = [
    { name = "staging", services = [towline_service.staging.id] },
    {
      name         = "production"
      services     = [towline_service.web.id]
      verification = { soak_seconds = 60 }
    },
  ]

  edges = [{
    source = "staging"
    target = "production"
    gates = [
      { name = "office-hours", rule = { kind = "WINDOW", calendar = {
        zone  = "Europe/Berlin"
        hours = [{ weekdays = [0, 1, 2, 3, 4], begin = "09:00", end = "17:00" }]
      } } },
      { name = "checks", rule = { kind = "WORKFLOW", steps = [
        { name = "approval", rule = { kind = "APPROVAL", quorum = 2 } },
        { name = "wait", rule = { kind = "WAIT", wait_seconds = 300 }, after = ["approval"] },
      ] } },
    ]
  }]
}

resource "towline_service" "staging" {
  name       = "web-staging"
  cluster    = towline_cluster.eu.name
  project    = towline_project.shop.name
  namespace  = "shop"
  repository = towline_git_repository.shop.name
  folder     = "staging"
}
