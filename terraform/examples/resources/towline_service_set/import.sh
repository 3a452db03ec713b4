terraform import towline_service_set.apps apps
