terraform import towline_helm_repository.stable https://charts.example.org/stable
