def kv_cache_bytes(
    num_layers, num_heads, head_dim, bytes_per_element, seq_len, batch_size, num_kv_heads=None
):
    num_kv_heads = num_kv_heads or num_heads
    return int(2 * num_layers * num_kv_heads * head_dim * bytes_per_element * seq_len * batch_size)
