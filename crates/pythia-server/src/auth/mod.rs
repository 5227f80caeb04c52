//! Who asks, and what they may do.

use std::net::IpAddr;
use std::sync::Arc;

use http::HeaderMap;
use pythia::GraphRules;

use crate::protocol::error::HttpError;

/// Tells who a request is from.
pub(crate) struct Auth {}

/// Who a request is from.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// The user's name; `None` if nobody said who they are.
    pub(crate) user: Option<Arc<str>>,
}

/// What somebody may do with a dataset.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// The graphs that its queries see.
    pub(crate) read: GraphRules,
    /// The graphs that its updates may change.
    pub(crate) write: GraphRules,
    /// May look after the server.
    pub(crate) admin: bool,
}

impl Auth {
    pub(crate) fn open() -> Self {
        Self {}
    }

    pub(crate) fn identify(
        &self,
        _headers: &HeaderMap,
        _peer: IpAddr,
    ) -> Result<Identity, HttpError> {
        Ok(Identity { user: None })
    }
}

impl Identity {
    pub(crate) fn access(&self, _dataset: &str) -> Access {
        Access {
            read: GraphRules::all(),
            write: GraphRules::all(),
            admin: true,
        }
    }
}
