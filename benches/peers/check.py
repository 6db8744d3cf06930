"""Compares every engine's answer with Highwater's, on the same rows and with nothing late; one line a comparison.

check.py CHECK_DIR DATA_DIR WORKLOAD... exits with 1 on a difference. CHECK_DIR/WORKLOAD/ENGINE-tTHREADS.* are the answers.
Equal means the same windows (sessions: start and end) and keys and the same bits of counts, sums, minima and maxima (the values are multiples of 1/64:
sums are exact in any order), means to 1e-9, and quantiles within SKETCH_ERROR of an exact one: of either value beside the rank, as engines define it differently.
In q7 several rows may share the highest price: any of them will do.
CHECK_DIR/WORKLOAD/late/ holds answers with a bound that stragglers exceed; of these only the rows lost are counted.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

SKETCH_ERROR = 0.0101  # half a bucket of 2 % is exp(0.01) - 1
SIDES = ("lower", "higher")
QUANTILES = {"p50": 0.5, "p99": 0.99}
KEYS = {"q7": ["win"]}
VALUES = {
    "w1": ["count", "sum", "min", "max"],
    "w2": ["count", "mean", "p50", "p99"],
    "w3": ["count", "sum"],
    "w4": ["count", "sum", "min", "max"],
    "w5": ["end", "count", "sum"],
    "q5": ["count"],
    "q7": ["price", "auction", "bidder"],
    "ysb": ["count"],
}


def keys(workload: str) -> list[str]:
    return KEYS.get(workload, ["win", "key"])


def read_rows(path: Path) -> pa.Table:
    table = pa.ipc.open_file(path).read_all().unify_dictionaries()
    return table.set_column(0, "ts", table.column("ts").cast(pa.int64()))


def from_csv(path: Path, workload: str, rows: pa.Table) -> pd.DataFrame:
    """The answer of a program in Rust or Java, which calls models by their codes."""
    frame = pd.read_csv(path)
    frame["mean"] = frame["sum"] / frame["count"]
    if "model" in rows.column_names:
        models = rows.column("model").chunk(0).dictionary.to_pylist()
        frame["key"] = frame["key"].map(lambda code: models[code])
    if "price" in rows.column_names:
        frame["price"], frame["auction"], frame["bidder"] = frame["sum"].astype("int64"), frame["key"], frame["count"]
    if workload == "w5":
        frame["end"] = frame["max"]
    return frame


def from_highwater(path: Path, workload: str) -> pd.DataFrame:
    """Highwater's answer: the key if there is one, the window, the aggregates in the order of the question."""
    table = pa.ipc.open_file(path).read_all()
    start, end = (table.column(f"window_{name}").cast(pa.timestamp("ms")).cast(pa.int64()) for name in ("start", "end"))
    columns = {"win": start, "end": end}
    names = [name for name in table.column_names if not name.startswith("window_")]
    values = [value for value in VALUES[workload] if value != "end"]
    for name, new in zip(names, [key for key in keys(workload) if key != "win"] + values):
        columns[new] = table.column(name)
    return pa.table(columns).to_pandas()


def read(path: Path, workload: str, rows: pa.Table) -> pd.DataFrame:
    """An answer of any engine, with one type for each column."""
    match path.suffix:
        case ".csv":
            frame = from_csv(path, workload, rows)
        case ".arrow":
            frame = from_highwater(path, workload)
        case _:
            frame = pq.read_table(path).to_pandas()
    frame = frame[[name for name in keys(workload) + VALUES[workload] if name in frame]]
    whole = {"win", "end", "count", "price", "auction", "bidder"} | ({"key"} if workload != "w2" else set())
    types = {name: "int64" if name in whole else "float64" for name in frame}
    return frame.astype(types | ({"key": str} if workload == "w2" else {}))


def exact_quantiles(rows: pa.Table) -> pd.DataFrame:
    """The quantiles of w2 from all values of each window and model: the values below and above the rank."""
    value, pane = rows.column("value").to_numpy(), rows.column("ts").to_numpy() // 60_000
    models = rows.column("model").cast(pa.string()).to_pandas().to_numpy()
    panes = {group: value[index] for group, index in pd.DataFrame({"p": pane, "m": models}).groupby(["p", "m"]).indices.items()}
    windows: dict[tuple[int, str], list[np.ndarray]] = {}
    for (number, model), values in panes.items():
        for offset in range(5):
            windows.setdefault(((number - offset) * 60_000, model), []).append(values)
    answers = []
    for (win, model), parts in windows.items():
        values = np.concatenate(parts)
        beside = [np.quantile(values, list(QUANTILES.values()), method=side) for side in SIDES]
        answers.append((win, model, *beside[0], *beside[1]))
    return pd.DataFrame(answers, columns=["win", "key", *(f"{name}_{side}" for side in SIDES for name in QUANTILES)])


def differences(workload: str, want: pd.DataFrame, got: pd.DataFrame) -> list[str]:
    """What is wrong with `got`; nothing if it is equal."""
    on = keys(workload)
    if got.duplicated(on).any():
        return [f"{got.duplicated(on).sum()} results twice"]
    both = want.merge(got, on=on, how="outer", suffixes=("", "_got"), indicator=True)
    lacking, surplus = ((both["_merge"] == side).sum() for side in ("left_only", "right_only"))
    if lacking or surplus:
        return [f"{lacking} results missing, {surplus} too many"]
    found = []
    for name in VALUES[workload]:
        if name in QUANTILES or name in ("auction", "bidder"):
            continue
        a, b = both[name].to_numpy(), both[f"{name}_got"].to_numpy()
        equal = np.isclose(a, b, rtol=1e-9, atol=0) if name == "mean" else a == b
        if not equal.all():
            found.append(f"{name}: {(~equal).sum()} of {len(equal)} differ")
    return found


def quantile_error(exact: pd.DataFrame, got: pd.DataFrame) -> float:
    both = exact.merge(got, on=["win", "key"])
    errors = [np.minimum(*((both[name] / both[f"{name}_{side}"] - 1).abs() for side in SIDES)) for name in QUANTILES]
    return float(np.max(errors))


def not_a_bid(rows: pd.DataFrame, got: pd.DataFrame) -> int:
    """Results of q7 that are no row of the data."""
    columns = ["win", "price", "auction", "bidder"]
    return int((got.merge(rows[columns].drop_duplicates(), on=columns, how="left", indicator=True)["_merge"] != "both").sum())


def check(workload: str, answers: Path, data: Path) -> int:
    """Compares the answers to one workload; returns how many differ."""
    rows = read_rows(data / "rows.arrow")
    reference = min(answers.glob("highwater-*"))
    want = read(reference, workload, rows)
    exact = exact_quantiles(rows) if workload == "w2" else None
    bids = rows.to_pandas().assign(win=lambda bid: bid["ts"] // 10_000 * 10_000) if workload == "q7" else None
    failed = 0
    for path in sorted(file for file in answers.iterdir() if file.is_file()):
        got = read(path, workload, rows)
        found, notes = differences(workload, want, got), []
        if exact is not None:
            error = quantile_error(exact, got)
            notes.append(f"worst quantile {error:.2%} off the exact one")
            found += [f"more than {SKETCH_ERROR:.2%}"] if not error <= SKETCH_ERROR else []
        if bids is not None and (wrong := not_a_bid(bids, got)):
            found.append(f"{wrong} results are no bid of the data")
        failed += bool(found)
        verdict = "DIFFERENT" if found else "reference" if path == reference else "equal"
        print(f"{verdict:10}{workload:4}{path.stem:15}{len(got):8,} results ", "; ".join(found + notes), flush=True)
    return failed


def lost(workload: str, answers: Path, data: Path) -> None:
    """Says how many pairs of a row and a window each engine counts less under the shorter bound."""
    rows = read_rows(data / "rows.arrow")
    totals = []
    for path in sorted(answers.glob("late/*")):
        full = read(next(answers.glob(f"{path.stem}.*")), workload, rows)["count"].sum()
        totals.append(f"{path.stem.split('-')[0]} {full - read(path, workload, rows)['count'].sum():,}")
    if totals:
        print("late      " + f"{workload:4}of {full:,} pairs of row and window: " + ", ".join(totals), flush=True)


def main() -> None:
    answers, data = Path(sys.argv[1]), Path(sys.argv[2])
    failed = 0
    for workload in sys.argv[3:]:
        source = data / ("nexmark" if workload in ("q5", "q7") else workload)
        failed += check(workload, answers / workload, source)
        if workload not in ("q5", "q7"):
            lost(workload, answers / workload, source)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
