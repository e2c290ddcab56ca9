//! What the table stores about the last confirmation. The repair job writes it. Readers ask it before
//! they say that something is not there.

use model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::ServerIdentity;

#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LastConfirmation {
    pub token: String,
    /// The token before it, of a confirmation or of a check. A partition still has it if the run was
    /// killed before the confirmation reached the partition. A partition that lost the last
    /// confirmation has it again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    pub servers: ServerIdentity,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub check: Option<Check>,
}

/// The possible losses that are being checked: the changes since `began`, up to `to`. Those before
/// `from` are done.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Check {
    pub began: Timestamp,
    pub from: Timestamp,
    pub to: Timestamp,
}

impl LastConfirmation {
    /// The kind of the state that stores it. Tables of the first version have it under this word.
    pub const KIND: &str = "vouch";
    pub const NAME: &str = "index";

    /// Whether these are the servers of the confirmation, and all that they may have lost before is
    /// checked. A server never gets an identity again that it has lost. So the ranks that these
    /// servers have shown since the confirmation were whole.
    pub fn has_confirmed(&self, servers: &ServerIdentity) -> bool {
        self.check.is_none() && self.servers == *servers
    }
}
