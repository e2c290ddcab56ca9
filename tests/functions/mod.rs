//! What the two stream functions rely on and how they react when a store fails.

mod engines;
mod failures;
mod paused;
mod wire;
