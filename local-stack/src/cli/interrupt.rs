//! Ctrl-C, and SIGTERM, while files are imported.

use std::io;

use repair_job::Signals;
use tokio::sync::watch;

/// The exit code of an interrupted import: 128 and the number of SIGINT, as in shells.
pub(super) const INTERRUPTED: u8 = 130;

/// Listens for signals. The first one makes the value true, which ends an import within a second. The second one
/// ends the process at once.
pub(super) fn interrupt() -> io::Result<watch::Receiver<bool>> {
    let mut signals = Signals::listen()?;
    let (interrupt, interrupted) = watch::channel(false);
    tokio::spawn(async move {
        signals.next().await;
        interrupt.send_replace(true);
        eprintln!("finishing what is under way; once more ends it at once");
        signals.next().await;
        std::process::exit(INTERRUPTED.into());
    });
    Ok(interrupted)
}
