"""One file a model: tensors as safetensors, everything else as JSON in its metadata. No pickle."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

FORMAT = "tsformer-4"


def write_model(path: str | os.PathLike[str], tensors: dict[str, torch.Tensor], metadata: dict[str, Any]) -> Path:
    """Write beside the target and rename, so that a reader never sees half a file.

    Raises
    ------
    ValueError
        When the folder does not exist, or something in ``metadata`` is no JSON.
    """
    path = _as_path(path)
    if path.suffix != ".safetensors":
        path = path.with_name(path.name + ".safetensors")
    if path.is_dir():
        raise ValueError(f"cannot save to {path}: it is a folder")
    if not path.parent.is_dir():
        raise ValueError(f"cannot save to {path}: the folder {path.parent.absolute()} does not exist")
    header = {"format": FORMAT, "tsformer": json.dumps(metadata, allow_nan=False, default=_plain)}
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, name, metadata=header)
        # mkstemp makes files that only their owner may read: give the model the usual rights.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(name, 0o666 & ~umask)
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    return path


def read_model(path: str | os.PathLike[str]) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Return tensors, on the CPU, and metadata of a file that `write_model` wrote.

    Raises
    ------
    ValueError
        When there is no such file, or it is no model of this library.
    """
    path = _as_path(path)
    if not path.is_file():
        raise ValueError(f"there is no model at {path.absolute()}")
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            header = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise ValueError(f"{path.absolute()} is not a saved model, or is damaged: {error}") from None
    if header.get("format") != FORMAT:
        raise ValueError(
            f"{path.absolute()} was not written by this version of tsformer: its format is "
            f"{header.get('format')!r}, expected {FORMAT!r}"
        )
    try:
        return tensors, json.loads(header["tsformer"])
    except (KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{path.absolute()} is damaged: its description cannot be read ({error})") from None


def _as_path(path: object) -> Path:
    """Return the name of a file as a path."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be the name of a .safetensors file, got {path!r} of type {type(path).__name__}")
    return Path(path)


def _plain(value: object) -> Any:
    """Return numpy scalars as JSON knows them."""
    if isinstance(value, np.generic):
        return value.item()
    raise ValueError(f"{value!r} of type {type(value).__name__} cannot be written to a model file: it is no JSON value")
