terraform import towline_service_account.ci ci@example.org
