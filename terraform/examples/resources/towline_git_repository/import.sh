terraform import towline_git_repository.shop https://git.example.org/shop.git
