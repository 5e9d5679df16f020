"""`__torch_function__`: classes of users' that say themselves what functions of tensors do with them."""
