"""Multi-head attention over torch's fused kernels, with a cache of keys and values."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from tsformer.nn.positions import rotate

Rotation = tuple[torch.Tensor, torch.Tensor] | None


class KeysValues(NamedTuple):
    """What cross-attention takes from the encoder's output; computed once for all decoder steps."""

    keys: torch.Tensor
    """(R, heads, S, features)."""
    values: torch.Tensor
    """(R, heads, S, features)."""
    query_weight: torch.Tensor
    """(D, D): the part of ``in_proj`` for queries. A view: cutting it at each step takes longer than the map itself."""
    query_bias: torch.Tensor
    """(D,), a view too."""


class KVCache:
    """Keys and values of the tokens decoded so far, one layer of one call.

    The buffers are allocated once for the whole horizon. Under autograd the past is concatenated instead,
    since writing into a buffer would overwrite what the backward pass still needs.
    """

    def __init__(self, max_length: int) -> None:
        self.max_length = max_length
        self.length = 0
        self._keys: torch.Tensor | None = None
        self._values: torch.Tensor | None = None

    def fork(self, paths: int) -> KVCache:
        """Return a cache that goes on from this one on several paths a row; without autograd."""
        forked = KVCache(self.max_length)
        forked.length = self.length
        if self._keys is not None and self._values is not None:
            forked._keys, forked._values = (x.repeat_interleave(paths, 0) for x in (self._keys, self._values))
        return forked

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Add (R, heads, T, features) and return everything so far."""
        begin, self.length = self.length, self.length + keys.shape[2]
        if torch.is_grad_enabled():
            if self._keys is not None and self._values is not None:
                keys, values = torch.cat([self._keys, keys], 2), torch.cat([self._values, values], 2)
            self._keys, self._values = keys, values
            return keys, values
        if self._keys is None or self._values is None:
            shape = (*keys.shape[:2], self.max_length, keys.shape[3])
            self._keys, self._values = keys.new_empty(shape), values.new_empty(shape)
        self._keys[:, :, begin : self.length] = keys
        self._values[:, :, begin : self.length] = values
        return self._keys[:, :, : self.length], self._values[:, :, : self.length]


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention in ``nhead`` subspaces (Vaswani et al. 2017, section 3.2).

    The weights are those of ``torch.nn.MultiheadAttention``: ``in_proj`` holds queries, keys and values, so
    self-attention projects once.
    """

    def __init__(self, d_model: int, nhead: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.nhead = nhead
        self.dropout = dropout
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(
        self,
        x: torch.Tensor,
        rotation: Rotation = None,
        *,
        causal: bool = False,
        key_mask: torch.Tensor | None = None,
        cache: KVCache | None = None,
    ) -> torch.Tensor:
        """Self-attention of x (R, T, D); ``key_mask`` (R, T) is True for the tokens that may be looked at."""
        q, k, v = self._heads(self.in_proj(x)).chunk(3, 1)  # (R, heads, T, features)
        q, k = rotate(q, rotation), rotate(k, rotation)
        if cache is not None:
            # The first call may hold several tokens; after it a single query sees the whole past, unmasked.
            causal = causal and cache.length == 0
            k, v = cache.append(k, v)
        return self._attend(q, k, v, causal=causal and q.shape[2] > 1, key_mask=key_mask)

    def project_memory(self, memory: torch.Tensor, rotation: Rotation) -> KeysValues:
        """Keys and values of the encoder's output (R, S, D), computed once for all decoder steps."""
        d = memory.shape[-1]
        weight, bias = self.in_proj.weight, self.in_proj.bias
        k, v = self._heads(F.linear(memory, weight[d:], bias[d:])).chunk(2, 1)
        return KeysValues(rotate(k, rotation).contiguous(), v.contiguous(), weight[:d], bias[:d])  # read at every step

    def cross(
        self, x: torch.Tensor, memory: KeysValues, rotation: Rotation = None, key_mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Attention of x (R, T, D) over the encoder's keys and values.

        A row of the memory may serve several rows of x, sample paths of one token each: they look at it side by side,
        as queries of one row, and nothing of it is copied.
        """
        queries = x.reshape(memory.keys.shape[0], -1, x.shape[-1])
        q = rotate(self._heads(F.linear(queries, memory.query_weight, memory.query_bias)), rotation)
        return self._attend(q, memory.keys, memory.values, causal=False, key_mask=key_mask).reshape(x.shape)

    def _attend(
        self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool, key_mask: torch.Tensor | None
    ) -> torch.Tensor:
        mask = None if key_mask is None else key_mask[:, None, None, :]  # (R, 1, 1, S)
        dropout = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, dropout_p=dropout)
        return self.out_proj(y.transpose(1, 2).flatten(2))  # (R, T, D)

    def _heads(self, x: torch.Tensor) -> torch.Tensor:
        """(R, T, n D) to (R, n heads, T, features)."""
        features = self.out_proj.in_features // self.nhead
        return x.unflatten(-1, (-1, features)).transpose(1, 2)
