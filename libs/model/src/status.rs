//! Whether readers see a comment.

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr};

use crate::error::{InvalidInput, quoted};

/// Whether readers see a comment. Only a published comment has duplicates and ranks.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum Status {
    #[default]
    Published,
    /// Nobody has decided about it yet. Only moderators see it.
    Pending,
    Hidden,
}

impl Status {
    pub const ALL: [Self; 3] = [Self::Published, Self::Pending, Self::Hidden];

    /// The statuses of comments that readers do not see.
    pub const UNPUBLISHED: [Self; 2] = [Self::Pending, Self::Hidden];

    pub fn parse(text: &str) -> Result<Self, InvalidInput> {
        text.parse().map_err(|_| {
            InvalidInput::new(
                "status",
                format!("{} is not published, pending or hidden", quoted(text)),
            )
        })
    }

    pub fn is_published(&self) -> bool {
        *self == Self::Published
    }

    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
