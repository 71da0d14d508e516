"""Sizes of real models, each chosen so that one mistake shows in it alone."""

from checking import check

# There is nothing to wait for but the processes.
LIMIT_S = 2.0

LLAMA_2_70B = {"num_layers": 80, "num_heads": 64, "head_dim": 128}
LLAMA_3_8B = {"num_layers": 32, "num_heads": 32, "head_dim": 128}


@check("A 7B model with multi-head attention, one sequence of 4,096 tokens", time_limit_s=LIMIT_S)
def multi_head(candidate):
    answer = candidate.call(
        "kv_cache_bytes",
        num_layers=32,
        num_heads=32,
        head_dim=128,
        bytes_per_element=2,
        seq_len=4096,
        batch_size=1,
    )
    answer.expect_int(
        2_147_483_648,
        known={
            "only keys or only values are counted": 1_073_741_824,
            "an element takes four bytes": 4_294_967_296,
            "bits are counted": 17_179_869_184,
        },
    )


@check("A 13B model, one token", time_limit_s=LIMIT_S)
def one_token(candidate):
    answer = candidate.call("kv_cache_bytes", 40, 40, 128, 2, 1, 1)
    answer.expect_int(819_200, known={"only keys or only values are counted": 409_600})


@check("The result is an int", time_limit_s=LIMIT_S)
def returns_an_int(candidate):
    answer = candidate.call("kv_cache_bytes", 1, 1, 1, 2, 1, 1)
    answer.require(
        type(answer.value) is int,
        "an int is wanted.",
        shown=f"It is of type {type(answer.value).__name__}.",
    )


@check("Llama-2-70B, 32 sequences of 4,096 tokens", time_limit_s=LIMIT_S)
def grouped_query(candidate):
    answer = candidate.call(
        "kv_cache_bytes", **LLAMA_2_70B, bytes_per_element=2, seq_len=4096, batch_size=32, num_kv_heads=8
    )
    answer.expect_int(
        42_949_672_960,
        known={
            "all 64 heads are counted, or bits instead of bytes": 343_597_383_680,
            "only keys or only values are counted": 21_474_836_480,
            "the ratio of the groups is applied twice": 5_368_709_120,
            "an element takes four bytes": 85_899_345_920,
            "one sequence of the batch is counted": 1_342_177_280,
        },
    )


@check("Without num_kv_heads every head has its own keys and values", time_limit_s=LIMIT_S)
def all_heads_by_default(candidate):
    left_out = candidate.call("kv_cache_bytes", **LLAMA_2_70B, bytes_per_element=2, seq_len=4096, batch_size=32)
    left_out.expect_int(343_597_383_680)
    none = candidate.call(
        "kv_cache_bytes", **LLAMA_2_70B, bytes_per_element=2, seq_len=4096, batch_size=32, num_kv_heads=None
    )
    none.expect_int(343_597_383_680)


@check("A single key-value head", time_limit_s=LIMIT_S)
def multi_query(candidate):
    answer = candidate.call(
        "kv_cache_bytes", **LLAMA_2_70B, bytes_per_element=2, seq_len=4096, batch_size=32, num_kv_heads=1
    )
    answer.expect_int(5_368_709_120, known={"all 64 heads are counted": 343_597_383_680})


@check("Llama-3: 8 key-value heads out of 32, and 8,192 tokens", time_limit_s=LIMIT_S)
def other_models(candidate):
    small = candidate.call("kv_cache_bytes", **LLAMA_3_8B, bytes_per_element=2, seq_len=1, batch_size=1, num_kv_heads=8)
    small.expect_int(131_072, known={"num_kv_heads is taken for the size of a group": 65_536})
    # Llama-3-70B has the layers and heads of Llama-2-70B.
    large = candidate.call(
        "kv_cache_bytes", **LLAMA_2_70B, bytes_per_element=2, seq_len=8192, batch_size=1, num_kv_heads=8
    )
    large.expect_int(2_684_354_560)


@check("One byte an element", time_limit_s=LIMIT_S)
def eight_bit(candidate):
    answer = candidate.call(
        "kv_cache_bytes", **LLAMA_2_70B, bytes_per_element=1, seq_len=4096, batch_size=32, num_kv_heads=8
    )
    answer.expect_int(
        21_474_836_480,
        known={
            "an element always takes two bytes": 42_949_672_960,
            "an element always takes four bytes": 85_899_345_920,
        },
    )


@check("Half a byte an element", time_limit_s=LIMIT_S)
def four_bit(candidate):
    answer = candidate.call(
        "kv_cache_bytes", **LLAMA_2_70B, bytes_per_element=0.5, seq_len=4096, batch_size=32, num_kv_heads=8
    )
    answer.expect_int(10_737_418_240, known={"half a byte is cut to none": 0})


@check("An empty batch takes nothing", time_limit_s=LIMIT_S)
def empty_batch(candidate):
    answer = candidate.call(
        "kv_cache_bytes", **LLAMA_2_70B, bytes_per_element=2, seq_len=4096, batch_size=0, num_kv_heads=8
    )
    answer.expect_int(0)


@check("Heads that cannot be shared evenly are refused", time_limit_s=LIMIT_S)
def heads_must_divide(candidate):
    candidate.expect_raises(
        "ValueError",
        "kv_cache_bytes",
        **LLAMA_2_70B,
        bytes_per_element=2,
        seq_len=4096,
        batch_size=32,
        num_kv_heads=6,
    )
