terraform import towline_role.deployer deployer
