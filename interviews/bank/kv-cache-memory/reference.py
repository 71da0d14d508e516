def kv_cache_bytes(
    num_layers,
    num_heads,
    head_dim,
    bytes_per_element,
    seq_len,
    batch_size,
    num_kv_heads=None,
):
    """The number of bytes that the keys and values of a batch take.

    Every layer keeps, for every token of every sequence, one key and one value of ``head_dim`` elements for each
    head that has its own: ``num_kv_heads`` of them, or all where it is not given.
    """
    if num_kv_heads is None:
        num_kv_heads = num_heads
    if num_kv_heads < 1 or num_heads % num_kv_heads != 0:
        raise ValueError(f"{num_heads} heads cannot be shared evenly by {num_kv_heads} key-value heads")
    elements = 2 * num_layers * num_kv_heads * head_dim * seq_len * batch_size
    # The factor 2 makes it whole for half a byte, too.
    return int(elements * bytes_per_element)


if __name__ == "__main__":
    size = kv_cache_bytes(80, 64, 128, 2, 4096, 32, num_kv_heads=8)
    print(f"Llama-2-70B, 32 x 4096 tokens: {size:,} bytes = {size / 1e9:.2f} GB = {size / 2**30:.2f} GiB")
    print(f"per token: {kv_cache_bytes(80, 64, 128, 2, 1, 1, num_kv_heads=8) / 2**10:.0f} KiB")
    print(f"with all 64 heads: {kv_cache_bytes(80, 64, 128, 2, 4096, 32) / 2**30:.0f} GiB")
