//! Whatever is typed as a duration is one, or is refused in words; what is shown of one is read back as the same.
#![no_main]

use highwater_cli::duration;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(delta) = duration::parse(text) {
        assert_eq!(duration::parse(&delta.to_string()), Ok(delta), "{text:?} was shown as {delta}");
    }
});
