//! What `highwater bench -h` and, with the details, `--help` say behind the flags.

pub(super) const EXAMPLES: &str = "\
Examples:
  highwater bench
      all workloads, ten million rows each, on one thread
  highwater bench w1 --keys 100k --key-type utf8 --stragglers 5% --bound 1m
      the first workload with your keys, your disorder and your bound
  highwater bench w1 w4 --threads 8 --partitions 8 --rows 50M
  highwater bench w1 --size 1h --slide 1m --json
      other windows than the workload's own; one JSON object a line
  highwater bench w5 --gap 5s --keys 10k
      sessions, with another gap and with other keys
  highwater bench w1 --input rows.parquet --out results.arrow
      rows of your own: columns ts, key and value";

pub(super) const DETAILS: &str = "\
What is timed:
  A new operator, all rows pushed to it in batches, and all results as record batches; q5 and ysb also what they do around
  the operator. The rows are in memory before the clock starts. The time is the median of the runs.

The limit:
  Between the runs every column that the workload reads is read once and added up, on as many threads: nothing that looks at all rows
  can be faster. The share of the limit is that time by the engine's. The machine's moods meet both.

Memory:
  The most resident memory of the process during the runs, the rows themselves included, and what the allocator keeps of the
  workloads before; run one workload for a number of its own. Linux only. State is what the operator says it holds.

The check:
  One more run is not timed. It compares every result, and the number of late rows, with loops over the rows that share no code with
  the engine; sums and the like must be equal to the bit, quantiles within the error that their sketch promises. (Sums
  of an --input whose values are no multiples of 1/64 may differ by their rounding.) A wrong answer is explained on
  stderr, and the exit code is 1.

Columns of an input:
  w1, w3, w4, w5: ts, key, value; w2: ts, model, value; q5: ts, auction; q7: ts, auction, bidder, price; ysb: ts, ad_id, event_type.
  ts is a Timestamp in milliseconds, or an Int64 that counts them; keys are Int32, Int64, Utf8, or Utf8 behind a dictionary; value is
  Float64, auction, bidder and price are Int64, ad_id is Int32, event_type is Int8 (0 is a view). Other columns are not read.
  The table of --campaigns: ad_id (0, 1, 2, ..., each once) and campaign_id, both Int32.

JSON:
  workload, threads, partitions, rows, keys, runs, rows_per_s, ns_per_row (median; also best_ and worst_ns_per_row),
  scan_limit_ns_per_row, share_of_limit (0 to 1), peak_rss_bytes, state_bytes, allocations_per_million_rows (of the second half of the
  rows), late_rows, result_rows, answer_ok (null with --no-check); w2 also has quantile_error and quantile_error_bound.
  What cannot be told is null.";
