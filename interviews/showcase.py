"""What the page of components shows: the names of the tokens, and a small form in each of its states."""

from __future__ import annotations

from typing import Any

from django import forms

SURFACES = ("surface-0", "surface-1", "surface-2", "surface-3", "border", "border-strong")
COLOURS = ("text", "text-muted", "accent", "ok", "warn", "bad", "info", "candidate")
SOFT_COLOURS = ("accent-soft", "ok-soft", "warn-soft", "bad-soft", "info-soft", "candidate-soft")
SPACES = tuple(f"space-{step}" for step in range(1, 9))
RADII = ("radius-1", "radius-2", "radius-3")
SIZES = ("text-xs", "text-sm", "text-base", "text-lg", "text-xl", "text-2xl")
CODE = '''import torch
import torch.distributed as dist


def reduce_scatter(chunks: list[torch.Tensor]) -> torch.Tensor:
    """Each rank ends with the sum of its own chunk."""
    rank, world = dist.get_rank(), dist.get_world_size()
    for step in range(world - 1):  # N - 1 steps around the ring
        send, receive = (rank - step - 1) % world, (rank - step - 2) % world
        chunks[receive] += exchange(chunks[send], to=(rank + 1) % world)
    return chunks[rank] * 1.0
'''
PROSE = """## What to write

A function `kv_cache_bytes` that takes a **configuration** and returns *bytes*:

1. two tensors a layer, keys and values;
2. one row for each token, with `num_kv_heads * head_dim` numbers.

> Say the unit out loud before you compute.

| model | layers | KV heads |
| --- | --- | --- |
| 7B | 32 | 32 |
| 70B | 80 | 8 |

```python
def kv_cache_bytes(config: Config, tokens: int) -> int: ...
```
"""


class _SampleForm(forms.Form):
    name = forms.CharField(help_text="As the candidate writes it.")
    email = forms.EmailField(required=False, label="Email")
    level = forms.ChoiceField(choices=[("core", "Core"), ("stretch", "Stretch")])
    notes = forms.CharField(widget=forms.Textarea(attrs={"rows": 3}), required=False)
    remind = forms.BooleanField(required=False, label="Remind me", help_text="A day before.")


def showcase() -> dict[str, Any]:
    return {
        "surfaces": SURFACES,
        "colours": COLOURS,
        "soft_colours": SOFT_COLOURS,
        "spaces": SPACES,
        "radii": RADII,
        "sizes": SIZES,
        "code": CODE,
        "prose": PROSE,
        "form": _SampleForm(initial={"name": "Cleo Candidate"}, prefix="plain"),
        "invalid_form": _SampleForm({"wrong-email": "cleo", "wrong-level": "core"}, prefix="wrong"),
    }
