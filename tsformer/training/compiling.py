"""``torch.compile`` of the training step: how, and whether it works here."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

# What torch compiles by.
BACKEND = "inductor"
# Compiled steps that torch keeps in a process. Its own limit is 8: a search over sizes would soon go on without.
MAX_GRAPHS = 64
# Patches of the longest rollout that is compiled: each is written out in the graph, which takes its time.
MAX_UNROLLED = 16
# What torch warns of in code of its own, as it compiles.
CHATTER = (".*`torch.jit.script_method` is deprecated.*", ".*\\.grad attribute of a Tensor that is not a leaf.*")


def compiled(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Return a function that is compiled at its first call; a later fit of the same sizes finds it compiled.

    A function of the network is compiled, not the network: its weights keep their names, and nothing of this stays
    in a fitted model.
    """
    return torch.compile(function, dynamic=False, backend=BACKEND)


@contextmanager
def compiler(device: torch.device) -> Iterator[None]:
    """Let torch compile for a device inside; a ValueError where it cannot."""
    with warnings.catch_warnings(), torch._dynamo.config.patch(cache_size_limit=MAX_GRAPHS):
        for text in CHATTER:
            warnings.filterwarnings("ignore", message=text)
        try:
            compiled(_something)(torch.zeros(8, device=device))
        except Exception as error:  # Python's version, the system, a compiler, Triton ...: no class has them all
            inner = getattr(error, "inner_exception", error)
            cause = f"{type(inner).__name__}: {inner}".splitlines()[0]  # behind it, advice for developers of torch
            raise ValueError(
                f"compile=True: torch cannot compile for {device.type!r} on this machine ({cause}). Install a C++ "
                f"compiler (g++, clang or MSVC; for a GPU Triton, too), or leave compile=False"
            ) from error
        yield


def _something(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1
