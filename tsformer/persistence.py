"""One file a model: tensors as safetensors, everything else as JSON in its metadata. No pickle."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from tsformer.blend import Blend
from tsformer.calibration import ConformalCalibration
from tsformer.config import ModelConfig
from tsformer.data.panel import Panel, Schema
from tsformer.data.transforms import TargetTransform
from tsformer.data.windows import CovariateScales, SeriesStatistics
from tsformer.fitted import FittedModel
from tsformer.nn.model import ForecastTransformer

FORMAT = "tsformer-4"
# Arrays of a panel that a file keeps of the history, beside its starts.
HISTORY = ("values", "indptr", "known", "observed", "static")


def write_fitted(
    fitted: FittedModel, path: str | os.PathLike[str], about: dict[str, Any], *, include_history: bool
) -> Path:
    """Write a fitted model to one file; ``about`` is what the caller wants back from `read_fitted`, as JSON."""
    config = fitted.network.config
    tensors = {f"model.{name}": tensor for name, tensor in fitted.network.state_dict().items()}
    tensors["statistics.mean"] = torch.from_numpy(fitted.statistics.mean)
    tensors["statistics.deviation"] = torch.from_numpy(fitted.statistics.deviation)
    tensors |= {f"scales.{role}": torch.from_numpy(scale) for role, scale in fitted.scales._asdict().items()}
    if fitted.transformed is not None:
        tensors["transform.powers"] = torch.from_numpy(fitted.transform.powers)
        tensors["transformed.mean"] = torch.from_numpy(fitted.transformed.mean)
        tensors["transformed.deviation"] = torch.from_numpy(fitted.transformed.deviation)
    if fitted.errors is not None:
        tensors["errors"] = torch.from_numpy(fitted.errors)
    if fitted.blend is not None:
        arrays = fitted.blend.to_arrays()
        tensors |= {f"blend.{name}": torch.from_numpy(array) for name, array in arrays.items()}
    metadata: dict[str, Any] = {
        "about": about,
        "config": {field.name: getattr(config, field.name) for field in fields(config)},
        "schema": fitted.schema.to_dict(),
        "ids": fitted.ids.tolist(),
        "ids_dtype": str(fitted.ids.dtype),
        "calendar_fields": fitted.calendar_fields,
    }
    if include_history and fitted.tail is not None:
        for name in HISTORY:
            tensors[f"history.{name}"] = torch.from_numpy(getattr(fitted.tail, name))
        tensors["history.start"] = torch.from_numpy(fitted.tail.start.astype(np.int64))
        metadata["start_dtype"] = str(fitted.tail.start.dtype)
    if fitted.calibration is not None:
        arrays = fitted.calibration.to_arrays()
        tensors |= {f"calibration.{name}": torch.from_numpy(array) for name, array in arrays.items()}
    return write_model(path, tensors, metadata)


def read_fitted(path: str | os.PathLike[str]) -> tuple[FittedModel, dict[str, Any]]:
    """Return the model of a file, and what was written about it."""
    tensors, metadata = read_model(path)
    lost = {"about", "config", "schema", "ids", "ids_dtype", "calendar_fields"} - metadata.keys()
    if lost:
        raise ValueError(f"{path} was written by another version of tsformer: it lacks {', '.join(sorted(lost))}")
    chosen: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in metadata["config"].items()}
    config = ModelConfig(**chosen)
    weights = {name.removeprefix("model."): t for name, t in tensors.items() if name.startswith("model.")}
    network = ForecastTransformer(config).to(next(iter(weights.values())).dtype)
    try:
        network.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(f"{path} is damaged: its weights do not fit its architecture ({error})") from None
    schema = Schema.from_dict(metadata["schema"])
    ids = pd.Index(metadata["ids"], dtype=metadata["ids_dtype"]).to_numpy()
    tail = None
    if "history.values" in tensors:
        start = tensors["history.start"].numpy().astype(metadata["start_dtype"])
        kept = {name: tensors[f"history.{name}"].numpy() for name in HISTORY}
        tail = Panel(start=start, ids=ids, schema=schema, **kept)
    statistics = SeriesStatistics(tensors["statistics.mean"].numpy(), tensors["statistics.deviation"].numpy())
    scales = CovariateScales(*(tensors[f"scales.{role}"].numpy() for role in CovariateScales._fields))
    arrays, blend = _arrays_of("calibration", tensors), _arrays_of("blend", tensors)
    transform, transformed = TargetTransform(), None
    if config.target_transform is not None:
        transform = TargetTransform(config.target_transform, tensors["transform.powers"].numpy())
        transformed = SeriesStatistics(tensors["transformed.mean"].numpy(), tensors["transformed.deviation"].numpy())
    fitted = FittedModel(
        network.eval(),
        schema,
        ids,
        statistics,
        scales,
        tuple(metadata["calendar_fields"]),
        tail,
        calibration=ConformalCalibration.from_arrays(arrays) if arrays else None,
        transform=transform,
        transformed=transformed,
        errors=tensors["errors"].numpy() if "errors" in tensors else None,
        blend=Blend.from_arrays(blend) if blend else None,
    )
    return fitted, metadata["about"]


def write_model(path: str | os.PathLike[str], tensors: dict[str, torch.Tensor], metadata: dict[str, Any]) -> Path:
    """Write beside the target and rename, so that a reader never sees half a file.

    Raises
    ------
    ValueError
        When the folder does not exist, or something in ``metadata`` is no JSON.
    """
    path = _with_suffix(_as_path(path))
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
    path = path if path.is_file() else _with_suffix(path)
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


def _with_suffix(path: Path) -> Path:
    """Return the path with the ending of a model file."""
    if not path.name:
        raise ValueError(f"path must be the name of a .safetensors file, got {str(path)!r}")
    return path if path.suffix == ".safetensors" else path.with_name(path.name + ".safetensors")


def _arrays_of(part: str, tensors: dict[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Return the tensors of one part of a file, by their names in it."""
    return {name.removeprefix(f"{part}."): t.numpy() for name, t in tensors.items() if name.startswith(f"{part}.")}


def _plain(value: object) -> Any:
    """Return numpy scalars as JSON knows them."""
    if isinstance(value, np.generic):
        return value.item()
    raise ValueError(f"{value!r} of type {type(value).__name__} cannot be written to a model file: it is no JSON value")
