//! Memory use of this process.

/// The resident memory, for people, from Linux's `/proc/self/status`; `None` on other systems. Files in `/dev/shm` are not
/// included.
pub(crate) fn resident_memory() -> Option<String> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let mib = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib / 1024)
    };
    Some(format!("{} MiB resident, at most {} MiB so far", mib("VmRSS:")?, mib("VmHWM:")?))
}
