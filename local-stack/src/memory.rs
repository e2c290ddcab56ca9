//! Memory use of this process.

use std::fmt;

/// Resident memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResidentMemory {
    pub now: u64,
    pub peak: u64,
}

impl fmt::Display for ResidentMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes / (1 << 20);
        write!(f, "{} MiB resident, at most {} MiB so far", mib(self.now), mib(self.peak))
    }
}

/// Reads Linux's `/proc/self/status`; `None` on other systems. Files in `/dev/shm` are not included.
pub fn resident_memory() -> Option<ResidentMemory> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let bytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
        Some(kib * 1024)
    };
    Some(ResidentMemory { now: bytes("VmRSS:")?, peak: bytes("VmHWM:")? })
}
