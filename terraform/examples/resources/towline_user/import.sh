terraform import towline_user.ada ada@example.org
