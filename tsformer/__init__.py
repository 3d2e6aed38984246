"""Forecasting with an encoder-decoder Transformer.

>>> import tsformer
>>> tsformer.__version__
'0.1.0'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tsformer.config import ModelConfig, TrainingConfig
    from tsformer.data.datasets import load_dataset
    from tsformer.evaluation.backtest import backtest
    from tsformer.evaluation.backtest_metrics import backtest_metrics
    from tsformer.evaluation.baselines import RepeatLast, RidgeForecaster, SeasonalNaive
    from tsformer.forecaster import TransformerForecaster, load
    from tsformer.nn.model import ForecastTransformer

__version__ = "0.1.0"

__all__ = [
    "ForecastTransformer",
    "ModelConfig",
    "RepeatLast",
    "RidgeForecaster",
    "SeasonalNaive",
    "TrainingConfig",
    "TransformerForecaster",
    "__version__",
    "backtest",
    "backtest_metrics",
    "load",
    "load_dataset",
    "show_versions",
]

# Imported on first use (PEP 562): `import tsformer` and `--help` need neither torch nor pandas.
_HOMES = {
    "ForecastTransformer": "tsformer.nn.model",
    "ModelConfig": "tsformer.config",
    "RepeatLast": "tsformer.evaluation.baselines",
    "RidgeForecaster": "tsformer.evaluation.baselines",
    "SeasonalNaive": "tsformer.evaluation.baselines",
    "TrainingConfig": "tsformer.config",
    "TransformerForecaster": "tsformer.forecaster",
    "backtest": "tsformer.evaluation.backtest",
    "backtest_metrics": "tsformer.evaluation.backtest_metrics",
    "load": "tsformer.forecaster",
    "load_dataset": "tsformer.data.datasets",
}


def __getattr__(name: str) -> Any:
    """Import a public name from the module it lives in."""
    if name not in _HOMES:
        raise AttributeError(f"module 'tsformer' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value  # the next access does not come here
    return value


def __dir__() -> list[str]:
    """Public names, whether imported yet or not."""
    return sorted(__all__)


def show_versions() -> None:
    """Print the versions of Python, tsformer and what it stands on, for a bug report."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    print(f"{'python':>14}: {platform.python_version()}, {platform.platform()}")
    print(f"{'tsformer':>14}: {__version__}")
    for package in (
        "torch",
        "lightning",
        "numpy",
        "pandas",
        "scikit-learn",
        "hydra-core",
        "utilsforecast",
        "safetensors",
        "matplotlib",
        "pyarrow",
    ):
        try:
            print(f"{package:>14}: {version(package)}")
        except PackageNotFoundError:
            print(f"{package:>14}: not installed")
