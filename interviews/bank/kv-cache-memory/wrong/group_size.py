def kv_cache_bytes(
    num_layers, num_heads, head_dim, bytes_per_element, seq_len, batch_size, num_kv_heads=None
):
    if num_kv_heads is None:
        num_kv_heads = 1
    if num_heads % num_kv_heads:
        raise ValueError("the heads cannot be shared evenly")
    heads = num_heads // num_kv_heads
    return int(2 * num_layers * heads * head_dim * bytes_per_element * seq_len * batch_size)
