terraform import towline_project.shop shop
