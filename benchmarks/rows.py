"""Rows of results: each computed once, kept as a JSON file, left alone while what it was made with is the same."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from tsformer import __version__

Result = dict[str, Any]
MISSING = "–"


Renderer = Callable[[dict[str, Result | None]], str]
"""From the results of all rows by name, None where there is none, to Markdown."""


@dataclass(frozen=True)
class Row:
    """One result.

    Parameters
    ----------
    name
        Its file below the folder of results, without ``.json``.
    work
        A function of a module, so that other processes find it; returns what JSON holds.
    arguments
        Of ``work``.
    setting
        ``setting()``: what the result depends on beside them. Asked for only where there is a file to compare with.

    A row is finished when its file says the same arguments and setting. An option that its file does not know came
    later: it must be off.
    """

    name: str
    work: Callable[..., Result]
    arguments: dict[str, Any]
    setting: Callable[[], dict[str, Any]] = dict

    @property
    def made_with(self) -> dict[str, Any]:
        """Arguments and setting, as they come back from JSON."""
        return json.loads(json.dumps({"arguments": self.arguments, "setting": self.setting()}))


def finished(rows: Sequence[Row], folder: Path) -> dict[str, Result]:
    """Return the results that are there, by name; those of other settings are not."""
    results = {}
    for row in rows:
        path = folder / f"{row.name}.json"
        if path.is_file():
            content = json.loads(path.read_text(encoding="utf-8"))
            if _agree(content["made_with"], row.made_with):
                results[row.name] = content["result"]
    return results


def _agree(old: Any, new: Any) -> bool:
    """Return whether everything that the old says is so in the new."""
    if isinstance(old, dict) and isinstance(new, dict):
        is_same = all(key in new and _agree(value, new[key]) for key, value in old.items())
        return is_same and not any(new[key] for key in new.keys() - old.keys())
    return old == new


def compute(rows: Sequence[Row], folder: Path, jobs: int, *, again: bool = False) -> int:
    """Compute the rows that are not finished, say so one by one, and return how many failed.

    Parameters
    ----------
    rows
        All that are wanted.
    folder
        Of the results.
    jobs
        Processes, of one thread each; 1: this one.
    again
        Compute the finished rows, too.
    """
    done = {} if again else finished(rows, folder)
    pending = [row for row in rows if row.name not in done]
    print(f"{len(rows)} rows, {len(done)} finished, {len(pending)} to compute", flush=True)
    failed = 0
    for number, (row, result, seconds) in enumerate(_outcomes(pending, jobs), start=1):
        is_error = isinstance(result, str)
        failed += is_error
        print(f"[{number}/{len(pending)}] {row.name}: {result if is_error else f'{seconds:.0f} s'}", flush=True)
        if not is_error:
            content = {"made_with": row.made_with, "version": __version__, "seconds": seconds, "result": result}
            write(folder / f"{row.name}.json", json.dumps(content, indent=1, allow_nan=False) + "\n")
    return failed


def _outcomes(rows: Sequence[Row], jobs: int) -> Iterator[tuple[Row, Result | str, float]]:
    """Compute rows; give each with its result (or its error, as text) and seconds as soon as it is there."""
    if jobs == 1:
        for row in rows:
            yield row, *_run(row)
        return
    os.environ["OMP_NUM_THREADS"] = "1"  # read by the processes that start now
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        futures = {pool.submit(_run, row): row for row in rows}
        for future in as_completed(futures):
            yield futures[future], *future.result()


def _run(row: Row) -> tuple[Result | str, float]:
    """Return the result of a row, or its error as text: one failure does not end the others."""
    began = time.perf_counter()
    try:
        result: Result | str = row.work(**row.arguments)
    except Exception:
        result = traceback.format_exc()
    return result, round(time.perf_counter() - began, 1)


def arguments(description: str, results: Path, page: Path, argv: Sequence[str] | None) -> argparse.Namespace:
    """Return the command line that the benchmarks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--only", nargs="+", default=[""], metavar="NAME", help="rows whose name contains one of these")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--jobs", type=int, default=2, help="processes of one thread each")
    parser.add_argument("--max-time", type=float, default=300.0, help="seconds that one training may take")
    parser.add_argument("--max-steps", type=int, help="steps of each training, for a look whether everything works")
    parser.add_argument("--again", action="store_true", help="compute finished rows again")
    parser.add_argument("--list", action="store_true", help="show the rows and stop")
    parser.add_argument("--write", action="store_true", help="write the page from the rows there are, compute none")
    parser.add_argument("--results", type=Path, default=results, help="folder of the rows")
    parser.add_argument("--page", type=Path, default=page, help="page to write the tables into")
    return parser.parse_args(argv)


def run(options: argparse.Namespace, rows: Sequence[Row], mark: str, render: Renderer) -> int:
    """Do what the command line asks; return how many rows failed.

    Parameters
    ----------
    options
        From `arguments`.
    rows
        All rows.
    mark, render
        Part of the page, and what is to stand there.
    """
    chosen = [row for row in rows if any(name in row.name for name in options.only)]
    if options.list:
        done = finished(chosen, options.results)
        print("\n".join(f"{'finished' if row.name in done else 'missing '}  {row.name}" for row in chosen))
        return 0
    failed = 0 if options.write else compute(chosen, options.results, options.jobs, again=options.again)
    there = finished(rows, options.results)
    write_between_marks(options.page, mark, render({row.name: there.get(row.name) for row in rows}))
    print(f"Tables: {options.page}")
    return failed


def write(path: Path, text: str) -> None:
    """Write a file beside its place and rename it: whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def write_between_marks(page: Path, mark: str, text: str) -> None:
    """Replace what a page has between ``<!-- MARK -->`` and ``<!-- end of MARK -->``; the rest is written by hand."""
    begin, end = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    if begin not in old or end not in old:
        old += f"{begin}\n{end}\n"
    head, _, rest = old.partition(begin)
    _, _, tail = rest.partition(end)
    write(page, f"{head}{begin}\n\n{text.strip()}\n\n{end}{tail}")


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose first row is its head."""
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([head, "|" + " --- |" * len(rows[0]), *body])


def number(values: Sequence[float], digits: int = 3, *, deviation: bool = True) -> str:
    """Return the mean over seeds as text, with the deviation where there are several; a dash where there is none."""
    if not values:
        return MISSING
    spread = f" ± {np.std(values, ddof=1):.{digits}f}" if deviation and len(values) > 1 else ""
    return f"{np.mean(values):.{digits}f}{spread}"
