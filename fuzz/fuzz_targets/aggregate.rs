//! Whatever is typed as an aggregate is one, or is refused in words.
#![no_main]

use highwater_cli::aggregates;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let _ = aggregates::parse(text);
});
