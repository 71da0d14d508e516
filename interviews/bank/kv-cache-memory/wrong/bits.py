def kv_cache_bytes(
    num_layers, num_heads, head_dim, bytes_per_element, seq_len, batch_size, num_kv_heads=None
):
    if num_kv_heads is None:
        num_kv_heads = num_heads
    if num_heads % num_kv_heads:
        raise ValueError("the heads cannot be shared evenly")
    return int(2 * num_layers * num_kv_heads * head_dim * bytes_per_element * 8 * seq_len * batch_size)
