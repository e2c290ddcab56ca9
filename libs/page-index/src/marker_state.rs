//! What a partition keeps beside its comments, and which calls may change it. The index in the
//! process and the model of the protocol (`repair-job/src/state/protocol_model`) call this. The Lua
//! scripts of `redis-index` decide the same; `tests/reading/backends.rs` holds both to it.
//!
//! **Invariant:** only the last rebuild that began gives a partition a marker. Until it does,
//! nothing else changes there but comments.

use model::{
    Timestamp,
    planted::{self, Bug},
};

use crate::{ConfirmationTime, Marker};

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct MarkerState {
    pub marker: Marker,
    /// Left by the caller that prepares to advance the watermark, or to mark the partition.
    pub nonce: Option<String>,
    /// The token of the rebuild that fills the partition.
    pub rebuild: Option<String>,
}

/// The steps by which a rebuild marks its partitions. What a step writes, it writes into each of
/// them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishStep {
    LeaveNonce,
    /// Stop unless the servers are those that the rebuild began with.
    AssertServers,
    /// Mark the partitions that still have the nonce. A server that took over after the assertion
    /// has lost it, or has everything that was written before it.
    Mark,
}

impl FinishStep {
    pub fn all() -> Vec<Self> {
        let mut steps = vec![Self::LeaveNonce, Self::AssertServers, Self::Mark];
        if planted::has(Bug::MarkedRestored) {
            steps.retain(|step| *step != Self::AssertServers);
        }
        steps
    }
}

impl MarkerState {
    /// Whether the rebuild with this token is the last that began, and has not ended.
    pub fn is_filled_by(&self, token: &str) -> bool {
        self.rebuild.as_deref() == Some(token)
    }

    /// Leaves the nonce, or marks the partition ready as of the watermark (`is_last`), if this
    /// rebuild is the last that began. Its token becomes the confirmation's. Returns whether that
    /// was done, also when an earlier call did it.
    pub fn finish_step(
        &mut self,
        token: &str,
        owner: &str,
        watermark: Timestamp,
        nonce: &str,
        is_last: bool,
    ) -> bool {
        let marker = &self.marker;
        if !self.is_filled_by(token) {
            // A repeated call, because the answer was lost: the partition is already marked.
            return marker.owner.as_deref() == Some(owner) && marker.watermark == Some(watermark);
        }
        if !is_last {
            self.nonce = Some(nonce.to_owned());
            return true;
        }
        if !self.has_nonce(nonce) {
            return false;
        }
        self.marker = Marker {
            owner: Some(owner.to_owned()),
            watermark: Some(watermark),
            confirmed: Some(watermark),
            token: Some(token.to_owned()),
        };
        self.rebuild = None;
        true
    }

    fn has_nonce(&self, nonce: &str) -> bool {
        self.nonce.as_deref() == Some(nonce)
    }

    /// Whether the marker belongs to this owner, and no rebuild is filling the partition.
    fn is_marked_by(&self, owner: &str) -> bool {
        self.rebuild.is_none() && self.marker.owner.as_deref() == Some(owner)
    }

    /// Leaves the nonce if the watermark is still `from`, or advances it `to` an instant if the
    /// nonce is still there. Returns whether that was done, also when an earlier call did it.
    pub fn advance_step(
        &mut self,
        owner: &str,
        nonce: &str,
        from: Timestamp,
        to: Option<Timestamp>,
    ) -> bool {
        if !self.is_marked_by(owner) {
            return false;
        }
        let is_as_read = self.marker.watermark == Some(from);
        let Some(to) = to else {
            if is_as_read {
                self.nonce = Some(nonce.to_owned());
            }
            return is_as_read;
        };
        if !self.has_nonce(nonce) {
            return false;
        }
        if is_as_read {
            self.marker.watermark = Some(to);
        }
        self.marker.watermark == Some(to)
    }

    /// Leaves the token of a confirmation if the marker still has the token that was read. Returns
    /// whether that was done, also when an earlier call did it.
    pub fn leave_token(
        &mut self,
        owner: &str,
        read: &str,
        token: &str,
        time: ConfirmationTime,
    ) -> bool {
        let present = self.marker.token.as_deref().unwrap_or_default();
        let is_mine = present == read || present == token;
        if !is_mine || !self.is_marked_by(owner) {
            return false;
        }
        self.marker.token = Some(token.to_owned());
        match time {
            ConfirmationTime::Unchanged => {}
            ConfirmationTime::TakenAway => self.marker.confirmed = None,
            ConfirmationTime::At(at) => self.marker.confirmed = Some(at),
        }
        true
    }
}
