//! What is said of a trace.

use std::fmt;

/// A rule by which the engine's answer is another one on purpose. `SEMANTICS` in the documentation has the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// The lowest time is a time like any other.
    LowestTime,
    /// Any offset, modulo the slide.
    Offset,
    /// A row in a gap between windows is neither late nor dropped.
    Gap,
    /// Bounds are clipped at the ends of 64 bits, not wrapped.
    Arithmetic,
    /// An input that has ended is left out; the others' rule decides.
    EndedAndIdle,
    /// The clock of inactivity starts at the last row, and 0 is a reading.
    IdleClock,
    /// Every dropped row is counted once.
    DropCounter,
    /// Late firings of a row come by end, then start.
    RefireOrder,
    /// Timers of one time fire in order of registration.
    TimerTies,
    /// The first watermark may be any value.
    SqlWatermark,
    /// The size need not be a multiple of the slide.
    SqlWindow,
    /// Multiples of a trigger's interval are found by floor division.
    TriggerInterval,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Rule::LowestTime => "rule 1: the lowest time",
            Rule::Offset => "rule 2: offsets beyond the slide",
            Rule::Gap => "rule 3: rows in gaps",
            Rule::Arithmetic => "rule 4: 64-bit ends",
            Rule::EndedAndIdle => "rules 8, 9: ended and idle",
            Rule::IdleClock => "rule 9: idleness clock",
            Rule::DropCounter => "rule 14: drop counter",
            Rule::RefireOrder => "rules 15-17: order of refires",
            Rule::TimerTies => "rule 20: timer ties",
            Rule::SqlWatermark => "SQL watermark from 0",
            Rule::SqlWindow => "SQL window sizes",
            Rule::TriggerInterval => "triggers before 1970",
        })
    }
}

/// The verdict on one trace.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    /// The engine's answer is the expected one.
    Ok,
    /// It is another one, and what it should be by these rules.
    OnPurpose(Vec<Rule>),
    /// The engine has no such thing.
    NotSupported(String),
    /// The first difference.
    Fail(String),
}

impl Verdict {
    /// `Ok`, unless a rule had to be called upon.
    pub(crate) fn of(mut rules: Vec<Rule>) -> Verdict {
        rules.sort_unstable();
        rules.dedup();
        if rules.is_empty() { Verdict::Ok } else { Verdict::OnPurpose(rules) }
    }

    pub(crate) fn word(&self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::OnPurpose(_) => "differs on purpose",
            Verdict::NotSupported(_) => "not supported",
            Verdict::Fail(_) => "FAIL",
        }
    }

    /// What stands behind the word: the rules, what is not supported, the first difference.
    pub(crate) fn detail(&self) -> String {
        match self {
            Verdict::Ok => String::new(),
            Verdict::OnPurpose(rules) => rules.iter().map(Rule::to_string).collect::<Vec<_>>().join("; "),
            Verdict::NotSupported(text) | Verdict::Fail(text) => text.clone(),
        }
    }
}
