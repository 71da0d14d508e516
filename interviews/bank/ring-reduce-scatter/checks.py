"""Sums on rings of several sizes, what they cost in messages, and what they leave alone.

Whatever has two ranks only hides half of the mistakes, so most of these have four.
"""

import torch
from checking import EachRank, check

FUNCTION = "ring_reduce_scatter"
# An honest answer takes milliseconds; a deadlock need not keep anybody waiting.
LIMIT_S = 3.0


def counting_up(ranks, length, dtype=torch.float32):
    """Rank k holds 0, 1, 2, … plus 100 k, so that each contribution can be seen in a sum."""
    return [(torch.arange(length) + 100 * rank).to(dtype) for rank in range(ranks)]


def chunks_of_sum(tensors):
    return list(torch.tensor_split(sum(tensors), len(tensors)))


def known_outcomes(tensors):
    """What each rank holds after the mistakes that are made again and again."""
    ranks = len(tensors)
    split = [torch.tensor_split(tensor, ranks) for tensor in tensors]
    total = torch.tensor_split(sum(tensors), ranks)
    return {
        "nothing is ever added, or the schedule ends at another chunk (each rank has its own input)": [
            split[r][r] for r in range(ranks)
        ],
        "the raw input is passed on instead of the partial sum (its own and its left neighbour's part)": [
            split[r][r] + split[(r - 1) % ranks][r] for r in range(ranks)
        ],
        "each rank returns its right neighbour's chunk": [total[(r + 1) % ranks] for r in range(ranks)],
        "each rank returns its left neighbour's chunk": [total[(r - 1) % ranks] for r in range(ranks)],
        "the mean is taken, not the sum": [total[r] / ranks for r in range(ranks)],
        "the whole sum is returned": [sum(tensors)] * ranks,
    }


@check("Four ranks, eight elements", time_limit_s=LIMIT_S)
def four_ranks(candidate):
    tensors = counting_up(4, 8)
    with candidate.ranks(4) as ranks:
        answers = ranks.call(FUNCTION, EachRank(tensors))
    answers.expect_tensors(chunks_of_sum(tensors), known=known_outcomes(tensors))


@check("Two ranks", time_limit_s=LIMIT_S)
def two_ranks(candidate):
    tensors = counting_up(2, 4)
    with candidate.ranks(2) as ranks:
        answers = ranks.call(FUNCTION, EachRank(tensors))
    answers.expect_tensors(chunks_of_sum(tensors))


@check("The input is left as it was", time_limit_s=LIMIT_S)
def input_unchanged(candidate):
    with candidate.ranks(4) as ranks:
        answers = ranks.call(FUNCTION, EachRank(counting_up(4, 8)), inputs_back=True)
    answers.expect_inputs_unchanged()


@check("Three ranks and eight ranks, random values", time_limit_s=LIMIT_S)
def three_and_eight_ranks(candidate):
    for count in (3, 8):
        tensors = [torch.randn(24, generator=candidate.generator()) for _ in range(count)]
        with candidate.ranks(count) as ranks:
            answers = ranks.call(FUNCTION, EachRank(tensors))
        # The order of the additions is free, so the last bits are.
        exact = chunks_of_sum([tensor.double() for tensor in tensors])
        answers.expect_tensors(exact, dtype=torch.float32, rel_tol=count * 2**-22, known=known_outcomes(tensors))


@check("A length that the ranks do not divide", time_limit_s=LIMIT_S)
def uneven_chunks(candidate):
    with candidate.ranks(4) as ranks:
        for length in (10, 5):
            tensors = counting_up(4, length)
            answers = ranks.call(FUNCTION, EachRank(tensors))
            answers.expect_tensors(chunks_of_sum(tensors), known=known_outcomes(tensors))


@check("Fewer elements than ranks", time_limit_s=LIMIT_S)
def few_elements(candidate):
    with candidate.ranks(4) as ranks:
        for length in (3, 1, 0):
            tensors = counting_up(4, length)
            answers = ranks.call(FUNCTION, EachRank(tensors))
            answers.expect_tensors(chunks_of_sum(tensors))


@check("One rank alone", time_limit_s=LIMIT_S)
def one_rank(candidate):
    with candidate.ranks(1) as ranks:
        answers = ranks.call(FUNCTION, torch.arange(5.0))
    answers[0].expect_tensor(torch.arange(5.0))


@check("int64 and bfloat16", time_limit_s=LIMIT_S)
def dtypes(candidate):
    with candidate.ranks(4) as ranks:
        large = [tensor + 2**40 for tensor in counting_up(4, 8, torch.int64)]
        ranks.call(FUNCTION, EachRank(large)).expect_tensors(chunks_of_sum(large))
        # Whole numbers below 256 have no rounding in bfloat16, in whatever order they are added.
        small = [torch.arange(8.0).add(10 * rank).to(torch.bfloat16) for rank in range(4)]
        ranks.call(FUNCTION, EachRank(small)).expect_tensors(chunks_of_sum(small))


@check("Four megabytes a rank", time_limit_s=2 * LIMIT_S)
def large_chunks(candidate):
    tensors = [torch.randint(-1000, 1000, (1 << 20,), generator=candidate.generator()).float() for _ in range(4)]
    with candidate.ranks(4) as ranks:
        answers = ranks.call(FUNCTION, EachRank(tensors))
    answers.expect_tensors(chunks_of_sum(tensors))


@check("As many messages and elements as a ring needs", time_limit_s=LIMIT_S)
def messages(candidate):
    with candidate.ranks(4) as ranks:
        # W - 1 messages each, which carry all chunks but one.
        even = ranks.call(FUNCTION, EachRank(counting_up(4, 8)))
        even.expect_messages(messages=[3, 3, 3, 3], items=[6, 6, 6, 6])
        for answer in even:
            peers = {sent.peer for sent in answer.notes.sends}
            answer.require(peers == {(answer.rank + 1) % 4}, "it sends to another rank than its right neighbour.")
        uneven = ranks.call(FUNCTION, EachRank(counting_up(4, 10)))
        items = sum(sent.items for answer in uneven for sent in answer.notes.sends)
        candidate.require(
            items == 30,
            "Together the ranks send more or fewer elements than they need to.",
            shown=f"For a vector of 10 elements they send {items}, needed are 30.",
        )


@check("Point-to-point messages only", time_limit_s=LIMIT_S)
def no_collectives(candidate):
    tensors = counting_up(4, 8)
    with candidate.ranks(4) as ranks:
        answers = ranks.call(FUNCTION, EachRank(tensors))
    answers.expect_no_collectives()
