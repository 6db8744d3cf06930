//! How far a run has come: a bar with bytes, rows a second and the watermark, or a line of text. On a terminal only.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};

use crate::text::grouped;

/// How far a run has come.
pub(crate) struct Progress {
    bar: ProgressBar,
    counters: Vec<Arc<AtomicU64>>,
    started: Instant,
}

impl Progress {
    /// `size` is the number of bytes to read, if all inputs know theirs.
    pub(crate) fn new(quiet: bool, counters: Vec<Arc<AtomicU64>>, size: Option<u64>) -> Self {
        let bar = match size {
            Some(size) => ProgressBar::new(size),
            None => ProgressBar::new_spinner(),
        };
        let shown = !quiet && std::io::stderr().is_terminal();
        bar.set_draw_target(if shown {
            ProgressDrawTarget::stderr_with_hz(10)
        } else {
            ProgressDrawTarget::hidden()
        });
        let template = match size {
            Some(_) => "{bar:24} {bytes}/{total_bytes}  {msg}",
            None => "{spinner} {bytes}  {msg}",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar, counters, started: Instant::now() }
    }

    /// Shows where the run is; `watermark` is asked for only if somebody sees it.
    pub(crate) fn update(&self, rows: u64, watermark: impl FnOnce() -> String) {
        if self.bar.is_hidden() {
            return;
        }
        self.bar.set_position(self.counters.iter().map(|counter| counter.load(Ordering::Relaxed)).sum());
        let rate = rows as f64 / self.started.elapsed().as_secs_f64().max(0.001);
        self.bar.set_message(format!(
            "{} rows, {} rows/s, watermark {}",
            grouped(rows),
            grouped(rate as u64),
            watermark()
        ));
    }

    /// Lets something else write to the terminal.
    pub(crate) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }

    pub(crate) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line that says what is being done, on a terminal only. It moves only when it is told to: nothing draws meanwhile.
pub(crate) struct Status {
    bar: ProgressBar,
}

impl Status {
    pub(crate) fn new() -> Self {
        let shown = std::io::stderr().is_terminal();
        let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target).with_finish(ProgressFinish::AndClear);
        if let Ok(style) = ProgressStyle::with_template("{msg}") {
            bar.set_style(style);
        }
        Status { bar }
    }

    pub(crate) fn say(&self, text: impl FnOnce() -> String) {
        if !self.bar.is_hidden() {
            self.bar.set_message(text());
            self.bar.tick();
        }
    }

    /// Lets something else write to the terminal.
    pub(crate) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.bar.suspend(write)
    }
}
