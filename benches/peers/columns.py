"""Writes the columns of an Arrow file as raw little-endian files, for the programs in Rust and Java.

columns.py ROWS.arrow [CAMPAIGNS.arrow]: each column becomes COLUMN.bin beside ROWS.arrow; a dictionary column its codes.
"""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa


def raw(column: pa.ChunkedArray) -> np.ndarray:
    """The numbers of a column: times as milliseconds, dictionary values as codes."""
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([chunk.indices for chunk in column.unify_dictionaries().chunks])
    return column.to_numpy()


def main() -> None:
    rows = Path(sys.argv[1])
    table = pa.ipc.open_file(pa.memory_map(str(rows))).read_all()
    for name in table.column_names:
        raw(table.column(name)).tofile(rows.with_name(f"{name}.bin"))
    for path in sys.argv[2:]:
        ads = pa.ipc.open_file(path).read_all().sort_by("ad_id")
        raw(ads.column("campaign_id")).tofile(rows.with_name("campaign_of_ad.bin"))


if __name__ == "__main__":
    main()
