terraform import towline_role_binding.on_call on-call
