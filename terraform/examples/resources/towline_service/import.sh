terraform import towline_service.web eu-1/web
