"""The queries: for each engine and workload the form that was the fastest of those tried, with a name for the form.

Event time is a column `ts` of whole milliseconds. Results have the columns `win` (start of the window) and `key`, then aggregates.
"""

from collections.abc import Callable

import polars as pl

FOUR = "count(*) AS count, sum(value) AS sum, min(value) AS min, max(value) AS max"


def _offsets(n: int) -> str:
    """The numbers below n as a table `r(o)`, for DataFusion."""
    return "(VALUES " + ",".join(f"({i})" for i in range(n)) + ") AS r(o)"


def _histogram_quantiles(panes: str, windows: str, first_bucket: str) -> str:
    """Quantiles from a histogram of 2 % buckets, counted for each pane and merged into windows."""
    return f"""
        WITH h AS ({panes}), w AS ({windows}),
        q AS (SELECT *, sum(c) OVER (PARTITION BY win, key ORDER BY b ROWS UNBOUNDED PRECEDING) AS cum,
                     sum(c) OVER (PARTITION BY win, key) AS n FROM w)
        SELECT win * 60000 AS win, key, CAST(sum(c) AS BIGINT) AS count, sum(s) / sum(c) AS mean,
               exp(({first_bucket.format(q=0.5)} + 0.5) / 50.0) AS p50,
               exp(({first_bucket.format(q=0.99)} + 0.5) / 50.0) AS p99
        FROM q GROUP BY win, key"""


def _sessions(opened: str) -> str:
    """Rows of a key in order: one that comes more than 30 s behind the one before opens a session, and `opened` numbers them.

    Rows of equal time are peers in the frame of `opened`, so all of them have the number that the one that opens has.
    """
    return f"""
        WITH a AS (SELECT key, ts, value, ts - lag(ts) OVER (PARTITION BY key ORDER BY ts) > 30000 AS opens FROM t),
        b AS (SELECT key, ts, value, {opened} OVER (PARTITION BY key ORDER BY ts) AS session FROM a)
        SELECT min(ts) AS win, key, max(ts) + 30000 AS "end", count(*) AS count, sum(value) AS sum
        FROM b GROUP BY key, session"""


DUCKDB: dict[str, tuple[str, str]] = {
    "w1": ("GROUP BY", f"SELECT ts // 60000 * 60000 AS win, key, {FOUR} FROM t GROUP BY ALL"),
    "w2": (
        "log histogram by pane",
        _histogram_quantiles(
            """SELECT ts // 60000 AS pane, model, CAST(floor(ln(value) * 50.0) AS INTEGER) AS b,
                      count(*) AS c, sum(value) AS s FROM t GROUP BY ALL""",
            "SELECT pane - o AS win, model AS key, b, sum(c) AS c, sum(s) AS s FROM h, range(5) AS r(o) GROUP BY ALL",
            "min(b) FILTER (cum >= {q} * n)",
        ),
    ),
    "w3": ("GROUP BY", "SELECT ts // 10000 * 10000 AS win, key, count(*) AS count, sum(value) AS sum FROM t GROUP BY ALL"),
    "w4": (
        "panes, window function",
        f"""WITH p AS (SELECT ts // 900000 AS pane, key, {FOUR} FROM t GROUP BY ALL),
            g AS (SELECT k.key, g.pane FROM (SELECT DISTINCT key FROM p) k,
                  (SELECT unnest(range(min(pane) - 95, max(pane) + 1)) AS pane FROM p) g),
            x AS (SELECT g.pane * 900000 AS win, g.key, sum(count) OVER w AS count, sum(sum) OVER w AS sum,
                         min(min) OVER w AS min, max(max) OVER w AS max
                  FROM g LEFT JOIN p USING (key, pane)
                  WINDOW w AS (PARTITION BY g.key ORDER BY g.pane ROWS BETWEEN CURRENT ROW AND 95 FOLLOWING))
            SELECT win, key, CAST(count AS BIGINT) AS count, sum, min, max FROM x WHERE count > 0""",
    ),
    "w5": ("lag, running count", _sessions("count(*) FILTER (opens)")),
    "q5": (
        "panes spread over windows",
        """WITH p AS (SELECT ts // 2000 AS pane, auction, count(*) AS c FROM t GROUP BY ALL),
           w AS (SELECT (pane - o) * 2000 AS win, auction AS key, CAST(sum(c) AS BIGINT) AS count
                 FROM p, range(5) AS r(o) GROUP BY ALL)
           SELECT * FROM w QUALIFY count = max(count) OVER (PARTITION BY win)""",
    ),
    "q7": (
        "arg_max",
        """SELECT ts // 10000 * 10000 AS win, max(price) AS price, arg_max(auction, price) AS auction,
                  arg_max(bidder, price) AS bidder FROM t GROUP BY ALL""",
    ),
    "ysb": (
        "JOIN",
        """SELECT ts // 10000 * 10000 AS win, campaign_id AS key, count(*) AS count FROM t JOIN ads USING (ad_id)
           WHERE event_type = 0 GROUP BY ALL""",
    ),
}

CLICKHOUSE: dict[str, tuple[str, str]] = {
    "w1": (
        "GROUP BY a UInt32 window number",
        f"""SELECT toInt64(number) * 60000 AS win, key, {FOUR} FROM t
            GROUP BY toUInt32(intDiv(ts, 60000)) AS number, key""",
    ),
    "w2": (
        "DDSketch states by pane",
        """SELECT (pane - arrayJoin(range(5))) * 60000 AS win, model AS key, countMerge(c) AS count, avgMerge(a) AS mean,
                  quantilesDDMerge(0.01, 0.5, 0.99)(qs) AS q, q[1] AS p50, q[2] AS p99 FROM
           (SELECT intDiv(ts, 60000) AS pane, model, countState() AS c, avgState(value) AS a,
                   quantilesDDState(0.01, 0.5, 0.99)(value) AS qs FROM t GROUP BY pane, model) GROUP BY win, model""",
    ),
    "w3": (
        "GROUP BY",
        "SELECT intDiv(ts, 10000) * 10000 AS win, key, count() AS count, sum(value) AS sum FROM t GROUP BY win, key",
    ),
    "w4": (
        "panes spread over windows",
        """SELECT (pane - arrayJoin(range(96))) * 900000 AS win, key, sum(c) AS count, sum(s) AS sum,
                  min(mn) AS min, max(mx) AS max FROM
           (SELECT intDiv(ts, 900000) AS pane, key, count() AS c, sum(value) AS s, min(value) AS mn, max(value) AS mx
            FROM t GROUP BY pane, key) GROUP BY win, key""",
    ),
    "w5": (
        "groupArray, arraySplit",
        """SELECT rows.1[1] AS win, key, rows.1[-1] + 30000 AS end, length(rows.1) AS count, arraySum(rows.2) AS sum FROM
           (SELECT key, arrayJoin(arraySplit((row, since) -> since > 30000, sorted, arrayDifference(sorted.1))) AS split,
                   (split.1, split.2) AS rows FROM
            (SELECT key, arraySort(row -> row.1, groupArray((ts, value))) AS sorted FROM t GROUP BY key))""",
    ),
    "q5": (
        "panes spread over windows",
        """SELECT win, key, count FROM (SELECT win, key, count, max(count) OVER (PARTITION BY win) AS top FROM
           (SELECT (pane - arrayJoin(range(5))) * 2000 AS win, auction AS key, sum(c) AS count FROM
            (SELECT intDiv(ts, 2000) AS pane, auction, count() AS c FROM t GROUP BY pane, auction) GROUP BY win, key))
           WHERE count = top""",
    ),
    "q7": (
        "argMax",
        """SELECT intDiv(ts, 10000) * 10000 AS win, max(t.price) AS price, argMax(t.auction, t.price) AS auction,
                  argMax(t.bidder, t.price) AS bidder FROM t GROUP BY win""",
    ),
    "ysb": (
        "dictionary instead of a join",
        """SELECT intDiv(ts, 10000) * 10000 AS win, dictGet('ads_dict', 'campaign_id', toUInt64(ad_id)) AS key,
                  count() AS count FROM t WHERE event_type = 0 GROUP BY win, key""",
    ),
}

DATAFUSION: dict[str, tuple[str, str]] = {
    "w1": ("GROUP BY", f"SELECT ts / 60000 * 60000 AS win, key, {FOUR} FROM t GROUP BY 1, 2"),
    "w2": (
        "log histogram by pane",
        _histogram_quantiles(
            """SELECT ts / 60000 AS pane, model, CAST(floor(ln(value) * 50.0) AS INTEGER) AS b,
                      count(*) AS c, sum(value) AS s FROM t GROUP BY 1, 2, 3""",
            f"""SELECT pane - o AS win, model AS key, b, sum(c) AS c, sum(s) AS s
                FROM h CROSS JOIN {_offsets(5)} GROUP BY 1, 2, 3""",
            "min(CASE WHEN cum >= {q} * n THEN b END)",
        ),
    ),
    "w3": ("GROUP BY", "SELECT ts / 10000 * 10000 AS win, key, count(*) AS count, sum(value) AS sum FROM t GROUP BY 1, 2"),
    "w4": (
        "panes spread over windows",
        f"""WITH p AS (SELECT ts / 900000 AS pane, key, {FOUR} FROM t GROUP BY 1, 2)
            SELECT (pane - o) * 900000 AS win, key, sum(count) AS count, sum(sum) AS sum, min(min) AS min, max(max) AS max
            FROM p CROSS JOIN {_offsets(96)} GROUP BY 1, 2""",
    ),
    "w5": ("lag, running sum", _sessions("sum(CASE WHEN opens THEN 1 ELSE 0 END)")),
    "q5": (
        "panes spread over windows",
        f"""WITH p AS (SELECT ts / 2000 AS pane, auction, count(*) AS c FROM t GROUP BY 1, 2),
            w AS (SELECT (pane - o) * 2000 AS win, auction AS key, sum(c) AS count
                  FROM p CROSS JOIN {_offsets(5)} GROUP BY 1, 2),
            m AS (SELECT win, max(count) AS top FROM w GROUP BY 1)
            SELECT w.win, w.key, w.count FROM w JOIN m ON w.win = m.win AND w.count = m.top""",
    ),
    "q7": (
        "last_value by price",
        """SELECT ts / 10000 * 10000 AS win, max(price) AS price, last_value(auction ORDER BY price) AS auction,
                  last_value(bidder ORDER BY price) AS bidder FROM t GROUP BY 1""",
    ),
    "ysb": (
        "JOIN",
        """SELECT ts / 10000 * 10000 AS win, campaign_id AS key, count(*) AS count FROM t JOIN ads ON t.ad_id = ads.ad_id
           WHERE event_type = 0 GROUP BY 1, 2""",
    ),
}

# ---------------------------------------------------------------------------------------------------------- Polars

Plan = Callable[[pl.LazyFrame, pl.LazyFrame | None], pl.LazyFrame]
_count, _value = pl.len().alias("count"), pl.col("value")


def _window(size: int) -> pl.Expr:
    return (pl.col("ts") // size * size).alias("win")


def _spread(panes: pl.LazyFrame, windows: int, slide: int) -> pl.LazyFrame:
    """Copies each pane into the windows that hold it."""
    offsets = pl.LazyFrame({"o": list(range(windows))}, schema={"o": pl.Int64})
    return panes.join(offsets, how="cross").with_columns(((pl.col("pane") - pl.col("o")) * slide).alias("win"))


def _pane(slide: int) -> pl.Expr:
    return (pl.col("ts") // slide).alias("pane")


def _four() -> list[pl.Expr]:
    return [_count, _value.sum().alias("sum"), _value.min().alias("min"), _value.max().alias("max")]


def _w1(t: pl.LazyFrame, _ads: pl.LazyFrame | None) -> pl.LazyFrame:
    return t.group_by(_window(60_000), "key").agg(_four())


def _w2(t: pl.LazyFrame, _ads: pl.LazyFrame | None) -> pl.LazyFrame:
    c, b = pl.col("c"), pl.col("b")
    bucket = (_value.log() * 50.0).floor().cast(pl.Int32).alias("b")
    panes = t.group_by(_pane(60_000), pl.col("model").alias("key"), bucket).agg(pl.len().alias("c"), _value.sum().alias("s"))
    windows = _spread(panes, 5, 60_000).group_by("win", "key", "b").agg(c.sum(), pl.col("s").sum()).sort("win", "key", "b")

    def quantile(q: float) -> pl.Expr:
        return ((b.filter(c.cum_sum() >= q * c.sum()).first() + 0.5) / 50.0).exp()

    return windows.group_by("win", "key").agg(
        c.sum().alias("count"),
        (pl.col("s").sum() / c.sum()).alias("mean"),
        quantile(0.5).alias("p50"),
        quantile(0.99).alias("p99"),
    )


def _w3(t: pl.LazyFrame, _ads: pl.LazyFrame | None) -> pl.LazyFrame:
    return t.group_by(_window(10_000), "key").agg(_count, _value.sum().alias("sum"))


def _w4(t: pl.LazyFrame, _ads: pl.LazyFrame | None) -> pl.LazyFrame:
    panes = t.group_by(_pane(900_000), "key").agg(_four())
    merged = [pl.col("count").sum(), pl.col("sum").sum(), pl.col("min").min(), pl.col("max").max()]
    return _spread(panes, 96, 900_000).group_by("win", "key").agg(merged)


def _w5(t: pl.LazyFrame, _ads: pl.LazyFrame | None) -> pl.LazyFrame:
    """Sorted by one number that has key and time in it, which is faster than by two columns."""
    key, ts = pl.col("key"), pl.col("ts")
    rows = t.with_columns((key * 10**13 + ts).alias("place")).sort("place")
    opens = (key != key.shift()) | (ts.diff() > 30_000)
    sessions = rows.with_columns(opens.fill_null(True).cum_sum().alias("session")).group_by("session")
    bounds = [ts.min().alias("win"), key.first(), (ts.max() + 30_000).alias("end")]
    return sessions.agg(*bounds, _count, _value.sum().alias("sum")).drop("session")


def _q5(t: pl.LazyFrame, _ads: pl.LazyFrame | None) -> pl.LazyFrame:
    panes = t.group_by(_pane(2_000), pl.col("auction").alias("key")).agg(_count)
    windows = _spread(panes, 5, 2_000).group_by("win", "key").agg(pl.col("count").sum())
    return windows.filter(pl.col("count") == pl.col("count").max().over("win"))


def _q7(t: pl.LazyFrame, _ads: pl.LazyFrame | None) -> pl.LazyFrame:
    price = pl.col("price")
    at_top = [pl.col(name).get(price.arg_max()) for name in ("auction", "bidder")]
    return t.group_by(_window(10_000)).agg(price.max(), *at_top)


def _ysb(t: pl.LazyFrame, ads: pl.LazyFrame | None) -> pl.LazyFrame:
    views = t.filter(pl.col("event_type") == 0).join(ads, on="ad_id")
    return views.group_by(_window(10_000), pl.col("campaign_id").alias("key")).agg(_count)


POLARS: dict[str, tuple[str, Plan]] = {
    "w1": ("streaming engine", _w1),
    "w2": ("log histogram by pane, streaming engine", _w2),
    "w3": ("streaming engine", _w3),
    "w4": ("panes spread over windows, streaming engine", _w4),
    "w5": ("one sort key, streaming engine", _w5),
    "q5": ("panes spread over windows, streaming engine", _q5),
    "q7": ("in-memory engine", _q7),
    "ysb": ("streaming engine", _ysb),
}
