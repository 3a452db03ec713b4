terraform import towline_oci_repository.shop oci://registry.example.org/team/shop
