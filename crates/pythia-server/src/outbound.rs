//! What requests may make this server ask of others: SERVICE and LOAD.

/// The places that may be asked.
#[derive(Default)]
pub(crate) struct Outbound {}
