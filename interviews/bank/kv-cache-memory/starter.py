def kv_cache_bytes(
    num_layers,
    num_heads,
    head_dim,
    bytes_per_element,
    seq_len,
    batch_size,
    num_kv_heads=None,
):
    """The number of bytes that the keys and values of a batch take."""
    return 0


if __name__ == "__main__":
    # Llama-2-7B in fp16: one sequence of 4,096 tokens.
    size = kv_cache_bytes(32, 32, 128, 2, 4096, 1)
    print(f"Llama-2-7B, 1 x 4096 tokens: {size:,} bytes")
