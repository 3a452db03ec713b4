terraform import towline_pipeline.shop shop
