//! How much memory the process has held: Linux says it in files.

/// Forgets how much it was, so that [`peak_rss_bytes`] is about what comes from now on. Where that is not possible the peak is
/// that of the whole process.
pub(super) fn reset_peak() {
    // Not every kernel has the file, and a sandbox may not let it be written.
    drop(std::fs::write("/proc/self/clear_refs", "5"));
}

/// The most bytes of resident memory since [`reset_peak`]; `None` where nobody tells.
pub(super) fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}
