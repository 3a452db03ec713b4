terraform import towline_cluster.eu eu-1
