"""What was measured, as text: the lines of a run, and docs/speed.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TITLES = {
    "training": (
        "Training",
        "Teacher forcing, Adam or AdamW, no gradient clipping; squared error, of Hugging Face a normal likelihood.",
    ),
    "memory": ("Memory of training", "Resident memory, each in a process of its own."),
    "decoding": ("Decoding", "Encoder and all steps, from windows in memory; untrained weights, evaluation mode."),
    "data": ("Data", "Hourly stamps, ids as text, sorted; a frame of pandas in memory. Context and horizon 96."),
    "backtest": ("Backtest", "Each library with its default network, fitted before; frame in, frame out."),
    "startup": ("Start-up", "Fresh interpreters, files in the cache of the system."),
    "scaling": ("Scaling", "Our own cost against size; 1 is linear, 2 quadratic."),
    "gpu": ("GPU", "Wall time, by a clock that waits for the device."),
}

INTRODUCTION = """\
# Speed

What tsformer costs beside what else one would take, as measured by

```
python benchmarks/run.py
```

in one run of each section: everybody in turn, A B A B ..., one thread, 32-bit floats, seconds of processor time, which
on one thread are those of the clock on the wall of an idle machine. Numbers are medians; in brackets the quartiles. The
columns *÷* are ratios to the contender in italics, of samples taken in the same round: below 1 is faster or smaller.
Unless a table says otherwise all have two encoder and two decoder layers, `d_model` 128, 8 heads, a feed-forward of
512, one token a step, a context and a horizon of 96 steps, 7 channels in a token, batches of 32 windows, and no
attention dropout in tsformer (0 is its default), which the others tie to `dropout`.
"""


def read(folder: Path) -> dict[str, dict[str, Any]]:
    """Return all results of a folder by section, in the order of the page."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in folder.glob("*.json")}
    return {section: found[section] for section in TITLES if section in found}


def page(results: dict[str, dict[str, Any]]) -> str:
    """Return docs/speed.md."""
    parts, machine = [INTRODUCTION], ""
    for section, result in results.items():
        title, text = TITLES[section]
        head = result["header"]
        parts.append(f"## {title}\n\n{text}\n")
        parts.extend(_table(table) for table in result["tables"])
        if result.get("sizes"):
            parts.append(_sizes(result["sizes"]))
        if result.get("facts"):
            parts.append("\n".join(f"- {what}: {value}" for what, value in result["facts"].items()) + "\n")
        if result.get("figure"):
            parts.append(f"![{title}]({result['figure']})\n")
        for name, why in result["missing"].items():
            parts.append(f"{name} could not be installed: {why}\n")
        quick = " **Quick run: too few rounds to quote.**" if result["quick"] else ""
        before, machine = machine, _machine(head)
        where = " on the same machine" if machine == before else f". {machine}"
        parts.append(f"{head['date']}, tsformer {head['tsformer']}{where}.{quick}\n")
    return "\n".join(parts)


def _machine(head: dict[str, Any]) -> str:
    """Return what was measured on, and with which versions."""
    versions = ", ".join(f"{name} {version}" for name, version in head["versions"].items())
    where = f"{head['processor']}, {head['memory_gib']} GiB, {head['system']}"
    return f"{where}; Python {head['python']}, {versions}"


def lines(table: dict[str, Any]) -> str:
    """Return a table as lines for a terminal."""
    text = [f"{table['work']}, {table['unit']}"]
    for row in table["rows"]:
        ratio = row["ratio"]
        beside = "" if ratio is None else f"   {ratio['median']:8.3g} x  [{ratio['q1']:.3g}, {ratio['q3']:.3g}]"
        text.append(f"  {row['who']:<36}{row['median']:10.4g}{beside}")
    return "\n".join(text)


def _table(table: dict[str, Any]) -> str:
    """Return a table in Markdown."""
    rate, has_ratios = table["rate"], table["rows"][0]["ratio"] is not None
    columns = [table["work"][0].upper() + table["work"][1:], table["unit"]]
    columns += [rate[0]] if rate else []
    columns += ["÷"] if has_ratios else []
    has_notes = any(row["note"] for row in table["rows"])
    columns += ["note"] if has_notes else []
    text = [_row(columns), _row(["---"] * len(columns))]
    for row in table["rows"]:
        is_reference = row["who"] == table["reference"]
        cells = [f"*{row['who']}*" if is_reference else row["who"], _spread(row)]
        cells += [_number(rate[1] / row["median"])] if rate else []
        cells += ["1" if is_reference else _spread(row["ratio"])] if has_ratios else []
        cells += [row["note"]] if has_notes else []
        text.append(_row(cells))
    return "\n".join(text) + "\n"


def _sizes(sizes: dict[str, dict[str, Any]]) -> str:
    """Return the sizes of the contenders in Markdown."""
    text = [_row(["What was trained", "parameters", "decoder positions", "channels a window"]), _row(["---"] * 4)]
    for who, size in sizes.items():
        text.append(_row([who, f"{size['parameters']:,}", str(size["decoder_positions"]), str(size["channels"])]))
    return "\n".join(text) + "\n"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _spread(values: dict[str, float]) -> str:
    if values["q1"] == values["q3"]:
        return _number(values["median"])
    return f"{_number(values['median'])} [{_number(values['q1'])}, {_number(values['q3'])}]"


def _number(value: float) -> str:
    """Return three digits, without an exponent."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
