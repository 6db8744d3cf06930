//! Group 03: one watermark out of many.

use highwater_oracle::{MAX, Merge, Reactivation};
use serde_json::Value as Json;

use crate::trace::{group, index, list, text, time};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Said {
    Watermark(i64),
    Idle,
    Active,
}

/// Feeds the trace to our merge and notes what it would send on, as `(after_input_index, what)`.
fn replay(trace: &Json) -> Vec<(usize, Said)> {
    let rule = match text(&trace["spec"]["merge"]) {
        "valve" => Reactivation::WhenCaughtUp,
        _ => Reactivation::AtOnce,
    };
    let mut merge = Merge::new(index(&trace["spec"]["partitions"]), rule);
    let mut said = Vec::new();
    let mut was_idle = false;
    for (i, item) in list(&trace["input"]).iter().enumerate() {
        let before = merge.watermark();
        let deferred = item.get("deferred").is_some();
        if let Some(p) = item.get("idle").map(index) {
            if deferred {
                merge.record_idle(p);
            } else {
                merge.idle(p);
            }
        } else if let Some(p) = item.get("active").map(index) {
            merge.active(p);
        } else if let Some(p) = item.get("unregister").map(index) {
            merge.finish(p);
        } else if item.get("register").is_some() {
            // Refused: the partition is there already. Ours are there from the start.
            assert_eq!(trace["expected"]["rejected"][0]["after_input_index"], i);
        } else if item.get("periodic").is_some() {
            merge.recompute();
        } else {
            let (p, w) = (index(&item["partition"]), time(&item["watermark"]));
            match w {
                MAX => merge.finish(p),
                _ if deferred => {
                    merge.record(p, w);
                }
                _ => merge.set(p, w),
            }
        }
        merge.validate();
        if merge.watermark() != before {
            said.push((i, Said::Watermark(merge.watermark())));
        }
        if deferred {
            continue;
        }
        match (was_idle, merge.all_idle()) {
            (false, true) => said.push((i, Said::Idle)),
            (true, false) if says_active(item, text(&trace["spec"]["merge"])) => said.push((i, Said::Active)),
            _ => {}
        }
        was_idle = merge.all_idle();
    }
    said
}

/// Who wakes up is a fact of the merge, but not all of Flink's classes pass it on: the valve does, the combined status
/// only when it was told so (not when a watermark told it), the multiplexer never.
fn says_active(item: &Json, merge: &str) -> bool {
    match merge {
        "valve" => true,
        "combined" => item.get("active").is_some(),
        _ => false,
    }
}

fn expected(trace: &Json) -> Vec<(usize, Said)> {
    let parse = |output: &Json| {
        let said = match output.get("status").map(text) {
            Some("idle") => Said::Idle,
            Some(_) => Said::Active,
            None => Said::Watermark(time(&output["value"])),
        };
        (index(&output["after_input_index"]), said)
    };
    list(&trace["expected"]["outputs"]).iter().map(parse).collect()
}

/// The multiplexer says "idle" again at every opportunity; once is enough.
fn once(mut said: Vec<(usize, Said)>) -> Vec<(usize, Said)> {
    said.dedup_by_key(|(i, said)| if *said == Said::Idle { (0, Said::Idle) } else { (*i, *said) });
    said
}

#[test]
fn flink_merges_to_the_same_watermarks() {
    let mut checked = 0;
    let mut different = 0;
    for trace in group("03_watermark_merge") {
        let name = text(&trace["name"]);
        let (ours, flinks) = (replay(&trace), expected(&trace));
        if name.ends_with("_end_then_others_idle") {
            // Watermark 10 on the first input; the second ends; the first goes idle, wakes up and says 11. Flink lets
            // the ended input stand at MAX, so it ends the stream when the first goes idle. We leave it out: the
            // first alone decides, all through.
            assert_eq!(flinks, [(1, Said::Watermark(10)), (2, Said::Watermark(MAX))], "{name}");
            let says_active = !name.contains("multiplexer");
            let alone =
                [(1, Said::Watermark(10)), (2, Said::Idle), (3, Said::Active), (4, Said::Watermark(11))];
            let alone: Vec<_> =
                alone.into_iter().filter(|(_, s)| *s != Said::Active || says_active).collect();
            assert_eq!(ours, alone, "{name}");
            different += 1;
        } else if name == "mux_unregister" {
            // Flink forgets the output at the next update, and says nothing when none is left. A partition that leaves
            // has finished here, at once: 10 already at item 3, and the end of input with the last one.
            let said = |i, w| (i, Said::Watermark(w));
            assert_eq!(flinks, [said(2, 1), said(4, 10), said(5, 20), said(8, 40)], "{name}");
            assert_eq!(ours, [said(2, 1), said(3, 10), said(5, 20), said(8, 40), said(9, MAX)], "{name}");
            different += 1;
        } else {
            assert_eq!(once(ours), once(flinks), "{name}");
            checked += 1;
        }
    }
    assert_eq!((checked, different), (56, 4));
}
