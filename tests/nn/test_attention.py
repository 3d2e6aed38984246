from __future__ import annotations

import pytest
import torch

from tsformer.nn.attention import KVCache, MultiHeadAttention


def copy_of(reference: torch.nn.MultiheadAttention) -> MultiHeadAttention:
    ours = MultiHeadAttention(reference.embed_dim, reference.num_heads).double()
    ours.load_state_dict(
        {
            "in_proj.weight": reference.in_proj_weight,
            "in_proj.bias": reference.in_proj_bias,
            "out_proj.weight": reference.out_proj.weight,
            "out_proj.bias": reference.out_proj.bias,
        }
    )
    return ours


@pytest.fixture
def reference() -> torch.nn.MultiheadAttention:
    torch.manual_seed(0)
    module = torch.nn.MultiheadAttention(12, 3, batch_first=True).double()
    torch.nn.init.normal_(module.in_proj_bias)
    return module


def test_weights_of_three_tokens():
    tokens = torch.tensor([[0.5, 1.0, 0.2], [1.0, 0.5, 0.3], [0.3, 1.0, 0.8]])
    attention = MultiHeadAttention(3, nhead=1)
    with torch.no_grad():
        attention.in_proj.weight.copy_(torch.eye(3).repeat(3, 1))
        attention.in_proj.bias.zero_()
        attention.out_proj.weight.copy_(torch.eye(3))
        attention.out_proj.bias.zero_()
        output = attention(tokens[None])[0]
    # output = weights @ tokens, and the tokens are a basis.
    weights = output @ tokens.inverse()
    torch.testing.assert_close(weights[0], torch.tensor([0.346, 0.303, 0.350]), atol=6e-4, rtol=0)
    torch.testing.assert_close(weights.sum(1), torch.ones(3))


@pytest.mark.parametrize("causal", [False, True])
def test_self_attention_is_torchs(reference, causal):
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    mask = torch.ones(5, 5, dtype=torch.bool).triu(1) if causal else None
    expected = reference(x, x, x, attn_mask=mask, need_weights=False)[0]
    torch.testing.assert_close(copy_of(reference)(x, causal=causal), expected)


def test_masked_keys_are_torchs(reference):
    x = torch.randn(2, 5, 12, dtype=torch.float64)
    seen = torch.tensor([[False, False, True, True, True], [True, True, True, False, True]])
    expected = reference(x, x, x, key_padding_mask=~seen, need_weights=False)[0]
    torch.testing.assert_close(copy_of(reference)(x, key_mask=seen), expected)


def test_cross_attention_is_torchs(reference):
    x, memory = torch.randn(2, 3, 12, dtype=torch.float64), torch.randn(2, 7, 12, dtype=torch.float64)
    ours = copy_of(reference)
    expected = reference(x, memory, memory, need_weights=False)[0]
    torch.testing.assert_close(ours.cross(x, ours.project_memory(memory, None)), expected)


@pytest.mark.parametrize("graph", [False, True])
def test_cache_gives_what_the_whole_sequence_gives(reference, graph):
    x, ours = torch.randn(2, 6, 12, dtype=torch.float64), copy_of(reference)
    expected = ours(x, causal=True)
    with torch.set_grad_enabled(graph):
        cache = KVCache(6)
        parts = [ours(x[:, :3], causal=True, cache=cache)]
        parts += [ours(x[:, i : i + 1], causal=True, cache=cache) for i in range(3, 6)]
    torch.testing.assert_close(torch.cat(parts, 1), expected)


def test_cache_is_allocated_once():
    cache, storage = KVCache(4), set()
    with torch.no_grad():
        for _ in range(4):
            keys, values = cache.append(torch.randn(2, 1, 1, 3), torch.randn(2, 1, 1, 3))
            storage.add((keys.data_ptr(), values.data_ptr()))
    assert len(storage) == 1 and cache.length == 4
