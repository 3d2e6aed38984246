"""What speed is measured against: torch's own Transformer in a bare loop, and a bare cached decoder over its weights.

No scaling, no missing values, no frames: as little around the network as training and decoding can do with.
"""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812


class BareTransformer(nn.Module):
    """`nn.Transformer` between three linear maps, with sinusoidal positions; one token a step.

    Letters: B windows, L context steps, H horizon steps, C channels, D width, S paths.

    Parameters
    ----------
    draws
        Whether the head gives mean and log deviation of each value, to draw from, instead of the value alone.
    """

    def __init__(
        self,
        channels: int = 7,
        d_model: int = 128,
        nhead: int = 8,
        layers: int = 2,
        dim_feedforward: int = 512,
        dropout: float = 0.1,
        max_length: int = 10_000,
        draws: bool = False,
    ) -> None:
        super().__init__()
        self.nhead, self.draws = nhead, draws
        self.transformer = nn.Transformer(
            d_model, nhead, layers, layers, dim_feedforward, dropout=dropout, batch_first=True
        )
        self.embed_context, self.embed_target = nn.Linear(channels, d_model), nn.Linear(channels, d_model)
        self.head = nn.Linear(d_model, 2 * channels if draws else channels)
        self.dropout = nn.Dropout(dropout)
        angle = torch.arange(max_length)[:, None] * torch.exp(
            torch.arange(0, d_model, 2) * (-math.log(10_000) / d_model)
        )
        self.register_buffer("positions", torch.stack([angle.sin(), angle.cos()], -1).flatten(1), persistent=False)

    def forward(self, context: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Teacher-forced outputs (B, H, C) for every step of ``target`` (B, H, C)."""
        x, y = self.embed(context, torch.cat([context[:, -1:], target[:, :-1]], 1))
        mask = nn.Transformer.generate_square_subsequent_mask(y.shape[1], device=y.device, dtype=y.dtype)
        return self.head(self.transformer(x, y, tgt_mask=mask, tgt_is_causal=True))

    def embed(self, context: torch.Tensor, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Tokens of the context, and of the decoder's inputs, whose first stands where the context ends."""
        length, horizon = context.shape[1], inputs.shape[1]
        x = self.embed_context(context) + self.positions[:length]
        y = self.embed_target(inputs) + self.positions[length - 1 : length - 1 + horizon]
        return self.dropout(x), self.dropout(y)

    @torch.inference_mode()
    def decode(self, context: torch.Tensor, horizon: int, paths: int = 1) -> torch.Tensor:
        """Forecast (B S, H, C) step by step in evaluation mode, through a cache of keys and values."""
        rows, length, channels = context.shape
        layers, nhead = self.transformer.decoder.layers, self.nhead
        d = self.embed_context.out_features

        def heads(x: torch.Tensor, rows: int) -> torch.Tensor:  # (rows, T, D) to (rows, heads, T, features)
            return x.view(rows, -1, nhead, d // nhead).transpose(1, 2)

        memory = self.transformer.encoder(self.embed_context(context) + self.positions[:length])
        cross = []
        for layer in layers:  # keys and values of the memory, once for all steps and paths
            weight, bias = layer.multihead_attn.in_proj_weight, layer.multihead_attn.in_proj_bias
            k, v = F.linear(memory, weight[d:], bias[d:]).chunk(2, -1)
            cross.append((weight[:d], bias[:d], heads(k, rows), heads(v, rows)))
        cache = [context.new_empty(2, rows * paths, nhead, horizon, d // nhead) for _ in layers]

        value = context[:, -1:].repeat_interleave(paths, 0)  # (B S, 1, C)
        values = []
        for t in range(horizon):
            x = self.embed_target(value) + self.positions[length - 1 + t]
            for layer, (keys, past), (wq, bq, k, v) in zip(layers, cache, cross, strict=True):
                attention = layer.self_attn
                q, keys[:, :, t : t + 1], past[:, :, t : t + 1] = (
                    heads(part, rows * paths)
                    for part in F.linear(x, attention.in_proj_weight, attention.in_proj_bias).chunk(3, -1)
                )
                y = F.scaled_dot_product_attention(q, keys[:, :, : t + 1], past[:, :, : t + 1])
                x = layer.norm1(x + attention.out_proj(y.transpose(1, 2).reshape(rows * paths, 1, d)))
                y = F.scaled_dot_product_attention(heads(F.linear(x, wq, bq), rows), k, v)  # paths side by side
                x = layer.norm2(x + layer.multihead_attn.out_proj(y.transpose(1, 2).reshape(rows * paths, 1, d)))
                x = layer.norm3(x + layer.linear2(layer.linear1(x).relu_()))
            output = self.head(self.transformer.decoder.norm(x))
            if self.draws:
                mean, log_deviation = output.chunk(2, -1)
                output = torch.addcmul(mean, log_deviation.exp(), torch.randn_like(mean))
            value = output
            values.append(value)
        return torch.cat(values, 1)


def train_step(
    model: BareTransformer, optimizer: torch.optim.Optimizer, context: torch.Tensor, target: torch.Tensor
) -> None:
    """One step of the loop that everybody writes."""
    loss = F.mse_loss(model(context, target), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
