terraform import towline_group.devs devs
