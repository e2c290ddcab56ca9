//! The look that all requests see. The folder is read again while the site is served; a folder with a mistake changes
//! nothing.

use std::{
    path::PathBuf,
    sync::{Arc, PoisonError, RwLock},
};

use super::{Look, LookError, messages};

/// The look of a site. Clones are the same look.
#[derive(Debug, Clone)]
pub(crate) struct SiteLook(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    folder: Option<PathBuf>,
    /// The origin of the site.
    origin: String,
    current: RwLock<Arc<Look>>,
}

impl SiteLook {
    /// Reads a site's folder. Without one, the site has our look.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub(crate) fn read(folder: Option<PathBuf>, origin: &str) -> Result<Self, LookError> {
        let look = folder.as_deref().map(|folder| Look::read(folder, origin)).transpose()?.unwrap_or_default();
        Ok(Self(Arc::new(Shared { folder, origin: origin.to_owned(), current: RwLock::new(Arc::new(look)) })))
    }

    pub(crate) fn has_folder(&self) -> bool {
        self.0.folder.is_some()
    }

    /// The look at this moment.
    pub(crate) fn current(&self) -> Arc<Look> {
        Arc::clone(&self.0.current.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the folder again, and logs what has changed. With a mistake in the folder, the look stays as it is.
    pub(crate) async fn reload(&self) {
        let shared = Arc::clone(&self.0);
        let read = tokio::task::spawn_blocking(move || {
            let Some(folder) = shared.folder.as_deref() else { return Ok(None) };
            // Checked only: pages show the messages of the start.
            messages::read(folder)?;
            Look::read(folder, &shared.origin).map(Some)
        });
        match read.await {
            Ok(Ok(Some(look))) => {
                let before = self.current();
                let changed = before.differences(&look).join(", ");
                *self.0.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(look);
                tracing::info!(changed, "the site folder was read again");
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::error!(%error, "the site folder has a mistake; the site keeps its look"),
            Err(error) => tracing::error!(%error, "the site folder was not read; the site keeps its look"),
        }
    }
}
