"""One batch engine, one workload: the data is loaded into the engine's memory, then the query is timed with its result materialised.

Prints one line of JSON. Pinning to processors is the caller's business.
"""

import argparse
import gc
import json
import os
import time
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

COLUMNS = {
    "w1": ["ts", "key", "value"],
    "w2": ["ts", "model", "value"],
    "w3": ["ts", "key", "value"],
    "w4": ["ts", "key", "value"],
    "w5": ["ts", "key", "value"],
    "q5": ["ts", "auction"],
    "q7": ["ts", "auction", "bidder", "price"],
    "ysb": ["ts", "ad_id", "event_type"],
}


class Engine(Protocol):
    """What is measured: `load`, untimed; `run`, timed; `result`, untimed."""

    name: str
    version: str
    form: str

    def load(self, workload: str, rows: pa.Table, ads: pa.Table | None, threads: int) -> None: ...
    def run(self) -> Any: ...
    def result(self, answer: Any) -> pa.Table: ...


class DuckDB:
    name = "DuckDB"

    def load(self, workload: str, rows: pa.Table, ads: pa.Table | None, threads: int) -> None:
        import duckdb
        from queries import DUCKDB

        self.version = duckdb.__version__
        self.form, self.query = DUCKDB[workload]
        self.connection = duckdb.connect(":memory:", config={"threads": threads})
        self.connection.execute("CREATE TABLE t AS SELECT * FROM rows")
        if ads is not None:
            self.connection.execute("CREATE TABLE ads AS SELECT * FROM ads")

    def run(self) -> pa.Table:
        return self.connection.sql(self.query).to_arrow_table()

    def result(self, answer: pa.Table) -> pa.Table:
        return answer


class ClickHouse:
    """Reads from a `Memory` table and writes its result to another, which is its cheapest form."""

    name = "ClickHouse"
    types = {pa.int64(): "Int64", pa.int32(): "Int32", pa.int8(): "Int8", pa.float64(): "Float64", pa.string(): "LowCardinality(String)"}

    def load(self, workload: str, rows: pa.Table, ads: pa.Table | None, threads: int) -> None:
        import chdb
        from chdb.session import Session
        from queries import CLICKHOUSE

        self.form, self.query = CLICKHOUSE[workload]
        self.settings = f"SETTINGS max_threads = {threads}, max_insert_threads = {threads}"
        self.session = Session()
        version = str(self.session.query("SELECT version()", "TSV")).strip()
        self.version = f"{version} (chdb {chdb.__version__})"
        self.session.query("CREATE DATABASE b ENGINE = Atomic")
        self.session.query("USE b")
        if workload == "w2":  # the reader takes plain strings only
            rows = rows.set_column(1, "model", rows.column("model").cast(pa.string()))
        self._table("t", rows)
        if ads is not None:
            self._table("ads", ads)
            self.session.query(
                "CREATE DICTIONARY ads_dict (ad_id UInt64, campaign_id Int32) PRIMARY KEY ad_id "
                "SOURCE(CLICKHOUSE(DB 'b' TABLE 'ads')) LAYOUT(FLAT()) LIFETIME(0)"
            )

    def _table(self, name: str, table: pa.Table) -> None:
        columns = ", ".join(f"{field.name} {self.types[field.type]}" for field in table.schema)
        self.session.query(f"CREATE TABLE {name} ({columns}) ENGINE = Memory")
        self.session.query(f"INSERT INTO {name} SELECT * FROM Python(table)")

    def run(self) -> None:
        self.session.query("DROP TABLE IF EXISTS r")
        self.session.query(f"CREATE TABLE r ENGINE = Memory AS {self.query} {self.settings}")

    def result(self, answer: None) -> pa.Table:
        return pa.ipc.open_file(pa.BufferReader(self.session.query("SELECT * FROM r", "Arrow").bytes())).read_all()


class DataFusion:
    name = "DataFusion"

    def load(self, workload: str, rows: pa.Table, ads: pa.Table | None, threads: int) -> None:
        import datafusion
        from queries import DATAFUSION

        self.version = datafusion.__version__
        self.form, self.query = DATAFUSION[workload]
        config = datafusion.SessionConfig().with_target_partitions(threads).with_batch_size(8192)
        self.context = datafusion.SessionContext(config)
        batches = rows.combine_chunks().to_batches(max_chunksize=8192)
        share = -(-len(batches) // threads)
        partitions = [batches[at : at + share] for at in range(0, len(batches), share)]
        self.context.register_record_batches("t", partitions)
        if ads is not None:
            self.context.register_record_batches("ads", [ads.to_batches()])

    def run(self) -> list[pa.RecordBatch]:
        return self.context.sql(self.query).collect()

    def result(self, answer: list[pa.RecordBatch]) -> pa.Table:
        return pa.Table.from_batches(answer)


class Polars:
    name = "Polars"

    def load(self, workload: str, rows: pa.Table, ads: pa.Table | None, threads: int) -> None:
        os.environ["POLARS_MAX_THREADS"] = str(threads)
        import polars
        from queries import POLARS

        self.version = polars.__version__
        self.form, plan = POLARS[workload]
        self.engine = "in-memory" if self.form.startswith("in-memory") else "streaming"
        frame = polars.from_arrow(rows, rechunk=True)
        self.plan = plan(frame.lazy(), None if ads is None else polars.from_arrow(ads).lazy())

    def run(self) -> Any:
        return self.plan.collect(engine=self.engine)

    def result(self, answer: Any) -> pa.Table:
        return answer.to_arrow()


ENGINES: dict[str, type[Engine]] = {"duckdb": DuckDB, "clickhouse": ClickHouse, "datafusion": DataFusion, "polars": Polars}


def read(path: Path, columns: list[str]) -> pa.Table:
    """The rows in memory, with event time as whole milliseconds."""
    table = pa.ipc.open_file(pa.OSFile(str(path))).read_all().select(columns).unify_dictionaries()
    return table.set_column(0, "ts", table.column("ts").cast(pa.int64()))


def load(engine: Engine, args: argparse.Namespace) -> int:
    """Fills the engine and lets go of everything else; returns the number of rows."""
    rows = read(args.dir / "rows.arrow", COLUMNS[args.workload])
    ads = pa.ipc.open_file(args.dir / "campaigns.arrow").read_all() if args.workload == "ysb" else None
    engine.load(args.workload, rows, ads, args.threads)
    return rows.num_rows


def reset_peak() -> None:
    """Starts the kernel's count of the peak memory afresh, where that is allowed."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pass


def peak_rss() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("workload", choices=COLUMNS)
    parser.add_argument("dir", type=Path, help="folder with rows.arrow (ysb: and campaigns.arrow)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the result as Parquet")
    args = parser.parse_args()

    engine = ENGINES[args.engine]()
    rows = load(engine, args)
    reset_peak()
    samples, answer = [], None
    for _ in range(args.runs):
        answer = None
        start = time.perf_counter()
        answer = engine.run()
        samples.append((time.perf_counter() - start) * 1e9 / rows)
    peak = peak_rss()
    if args.out:
        pq.write_table(engine.result(answer), args.out)
    line = {"peer": engine.name, "version": engine.version, "form": engine.form, "workload": args.workload, "threads": args.threads}
    print(json.dumps(line | {"rows": rows, "ns_per_row": samples, "peak_rss_bytes": peak}))


if __name__ == "__main__":
    main()
