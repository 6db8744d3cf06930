"""Writes the record of a run: report.py HOME RECORD_DIR COMMAND reads HOME/results.jsonl, check.txt and load.txt."""

import json
import os
import platform
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from statistics import median

TITLES = {
    "w1": "W1: windows of 1 min, 1,000 Zipf keys: count, sum, min, max",
    "w2": "W2: windows of 5 min every 1 min, 20 names: count, mean, p50, p99",
    "w3": "W3: windows of 10 s, 1,000,000 uniform keys: count, sum",
    "w4": "W4: windows of 24 h every 15 min, 1,000 Zipf keys: count, sum, min, max",
    "w5": "W5: sessions with a gap of 30 s, 100,000 uniform keys: count, sum, start, end",
    "q5": "Q5: NEXMark hot items, windows of 10 s every 2 s: the auctions with the most bids",
    "q7": "Q7: NEXMark highest bid, windows of 10 s",
    "ysb": "YSB: one event type of three, 1,000 ads joined to 100 campaigns, count per 10 s",
}
BATCH = {"DuckDB", "ClickHouse", "DataFusion", "Polars"}


@dataclass
class Measured:
    """All runs of an engine on a workload with a number of threads."""

    peer: str
    form: str
    workload: str
    threads: int
    rows: int
    samples: list[float] = field(default_factory=list)
    peaks: list[int] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        return median(self.samples)


def read_results(path: Path) -> tuple[list[Measured], dict[str, str]]:
    """Joins the processes of each engine; also the versions."""
    found: dict[tuple[str, str, int], Measured] = {}
    versions: dict[str, str] = {}
    for line in path.read_text().splitlines():
        result = json.loads(line)
        own = "peer" not in result
        peer = "Highwater" if own else result["peer"]
        key = (result["workload"], peer, result["threads"])
        form = ("one partition" if result["threads"] == 1 else "8 partitions") if own else result["form"]
        measured = found.setdefault(key, Measured(peer, form, key[0], key[2], result["rows"]))
        if own:
            measured.samples += [result[name] for name in ("best_ns_per_row", "ns_per_row", "worst_ns_per_row")]
            measured.limits.append(result["scan_limit_ns_per_row"])
        else:
            measured.samples += result["ns_per_row"]
            versions[peer] = result["version"]
        measured.peaks.append(result["peak_rss_bytes"])
    return list(found.values()), versions


def number(value: float) -> str:
    """About three digits."""
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:,.{digits}f}"


def table(header: list[str], left: int, rows: Iterable[list[str]]) -> list[str]:
    """A table whose first `left` columns are text."""
    rule = ["---"] * left + ["--:"] * (len(header) - left)
    return [f"| {' | '.join(cells)} |" for cells in [header, rule, *rows]]


def reference(results: list[Measured], threads: int) -> Measured | None:
    return next((one for one in results if one.peer == "Highwater" and one.threads == threads), None)


def row(one: Measured, own: Measured | None) -> list[str]:
    """A line of a workload's table; the last cells need Highwater's result with as many threads."""
    ratio, share = "–", "–"
    if own:
        ratio, share = number(one.median / own.median), f"{median(own.limits) / one.median:.1%}"
    return [
        f"**{one.peer}**" if one.peer == "Highwater" else one.peer,
        one.form,
        str(one.threads),
        f"{one.rows / 1e6:g} M",
        number(one.median),
        number(min(one.samples)),
        number(1e3 / one.median),
        ratio,
        f"{max(one.peaks) / 2**20:,.0f}",
        share,
    ]


def section(title: str, results: list[Measured]) -> list[str]:
    header = ["peer", "form", "threads", "rows", "ns a row, median", "best", "M rows/s", "x Highwater's time", "peak RSS, MiB", "of the scan limit"]
    ordered = sorted(results, key=lambda one: (one.threads, one.median))
    limits = [
        f"{number(median(one.limits))} ns a row with {one.threads} thread{'s' * (one.threads > 1)}"
        for one in ordered
        if one.limits
    ]
    return [
        "",
        f"## {title}",
        "",
        f"Scan limit (reading each column that Highwater reads, once): {', '.join(limits)}.",
        "",
        *table(header, 2, (row(one, reference(results, one.threads)) for one in ordered)),
    ]


def against(own: Measured, others: list[Measured]) -> str:
    """How many times Highwater is faster than the fastest of the others."""
    if not others:
        return "–"
    best = min(others, key=lambda one: one.median)
    name = f" ({best.peer})" if best.peer in BATCH else ""
    return f"{number(best.median / own.median)} x{name}"


def summary(by_workload: dict[str, list[Measured]]) -> list[str]:
    header = ["workload", "threads", "Highwater, M rows/s", "the fastest batch engine", "hand-rolled Rust", "Flink"]
    lines = []
    for workload, results in by_workload.items():
        for own in sorted((one for one in results if one.peer == "Highwater"), key=lambda one: one.threads):
            same = [one for one in results if one.threads == own.threads]
            groups = [BATCH, {"hand-rolled Rust"}, {"Flink"}]
            ratios = [against(own, [one for one in same if one.peer in group]) for group in groups]
            lines.append([workload, str(own.threads), number(1e3 / own.median), *ratios])
    return table(header, 1, lines)


def output_of(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def machine() -> str:
    cpu = next(line.split(":", 1)[1].strip() for line in output_of("lscpu").splitlines() if line.startswith("Model name"))
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{os.cpu_count()} cores of {cpu}, {memory:.0f} GiB, {platform.system()} {platform.release()}"


def agreement(check: str) -> list[str]:
    """The lines of the check; answers that are equal without a note are only counted."""
    plain: dict[str, int] = defaultdict(int)
    noted = []
    for line in check.splitlines():
        words = line.split()
        if words[0] == "equal" and words[-1] == "results":
            plain[words[1]] += 1
        else:
            noted.append(line)
    return [f"equal     {workload:4}{count} other answers" for workload, count in plain.items()] + noted


def main() -> None:
    home, record, command = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    results, versions = read_results(home / "results.jsonl")
    by_workload = defaultdict(list)
    for one in results:
        by_workload[one.workload].append(one)
    check = (home / "check.txt").read_text().rstrip()
    caveats = Path(__file__).with_name("caveats.md").read_text().strip()
    failures = (home / "failures.txt").read_text().rstrip()
    date = datetime.now(timezone.utc).date().isoformat()
    commit = output_of("git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty")
    java = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr.splitlines()[0] if "Flink" in versions else ""
    tools = [output_of("rustc", "--version"), f"Python {platform.python_version()}", java]
    lines = [
        f"# Highwater and its peers, {date}",
        "",
        f"Made by `{command.strip()}` at commit {commit}.",
        f"Machine: {machine()}; load average before measuring: {(home / 'load.txt').read_text().strip()}.",
        "Versions: " + ", ".join(f"{peer} {version}" for peer, version in sorted(versions.items())) + "; " + ", ".join(filter(None, tools)) + ".",
        "How it is measured: [benches/peers](../peers/README.md). One thread is one pinned processor.",
        "",
        "## Highwater is N times as fast as",
        "",
        "Ratios of median times, below 1 where Highwater is slower.",
        "",
        *summary(by_workload),
    ]
    for workload in (name for name in TITLES if name in by_workload):
        lines += section(TITLES[workload], by_workload[workload])
    lines += ["", "## Agreement", "", "```text", *agreement(check), *([failures] if failures else []), "```", "", "## Caveats", "", caveats, ""]
    path = record / f"{date}-peers.md"
    path.write_text("\n".join(lines))
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
