//! Connections to and from the service: their bounds, what clients send ahead, and TLS.

mod bounds;
mod exhaustion;
mod secured;
mod sent_ahead;
