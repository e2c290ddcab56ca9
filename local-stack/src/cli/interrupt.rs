//! Ctrl-C, and SIGTERM, while files are imported.

use std::io;

use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

/// The exit code of an interrupted import: 128 and the number of SIGINT, as in shells.
pub(super) const INTERRUPTED: u8 = 130;

/// SIGINT and SIGTERM.
pub(super) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens; from then on these signals alone do not end the process.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn listen() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Waits for the next signal.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// The first signal ends an import after the work under way. The second one ends the process at once.
#[derive(Clone)]
pub(super) struct Interrupt(watch::Receiver<bool>);

impl Interrupt {
    /// Listens for signals.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn listen() -> io::Result<Self> {
        let mut signals = Signals::listen()?;
        let (sender, asked) = watch::channel(false);
        tokio::spawn(async move {
            signals.next().await;
            sender.send_replace(true);
            eprintln!("finishing what is under way; once more ends it at once");
            signals.next().await;
            std::process::exit(INTERRUPTED.into());
        });
        Ok(Self(asked))
    }

    /// Waits for the first signal.
    pub(super) async fn asked(mut self) {
        // The sender lives as long as the process.
        self.0.wait_for(|asked| *asked).await.ok();
    }
}
