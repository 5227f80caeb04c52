//! What requests may make this server ask of others: SERVICE and LOAD.
//!
//! Whoever may send queries decides on their URLs, so these must be on an allow-list; and what a name
//! stands for is decided by whoever answers for the name, so every address is checked too, each time
//! and where it is about to be connected to. Redirects are requests like any other: LOAD follows them
//! if they may be asked, SERVICE follows none.

mod address;
pub(crate) mod config;
mod rules;

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use oxrdf::NamedNode;
use pythia::{HttpService, LoadHandler, Loader, ServiceError, ServiceHandler, ServiceSolutions};
use ureq::config::Config as AgentConfig;
use ureq::http::Uri;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{DefaultConnector, NextTimeout};
use ureq::{Agent, Error};

use self::config::OutboundConfig;
use self::rules::Rules;

/// How many redirects LOAD follows.
const REDIRECTS_MAX: u32 = 5;
/// Connections kept open for what is asked next, for each endpoint.
const IDLE_MAX: usize = 8;

/// The places that may be asked.
pub(crate) struct Outbound {
    service: Arc<dyn ServiceHandler>,
    load: Arc<dyn LoadHandler>,
}

impl Outbound {
    /// As configured.
    ///
    /// # Errors
    /// Which entry is wrong.
    pub(crate) fn new(config: &OutboundConfig) -> Result<Self, String> {
        let rules = Arc::new(Rules::new(&config.allow)?);
        let timeout = config.timeout;
        let agent = |redirects| agent(&rules, DefaultResolver::default(), timeout, redirects);
        let service = HttpService::new(agent(0), config.response_bytes);
        let http = agent(REDIRECTS_MAX);
        let mut load = Loader::new().with_agent(http, config.response_bytes);
        if let Some(folder) = &config.load_folder {
            load = load.with_folder(folder);
        }
        Ok(Self {
            service: Arc::new(Listed {
                rules,
                endpoints: service,
            }),
            load: Arc::new(load),
        })
    }

    /// Asks endpoints for SERVICE.
    pub(crate) fn service(&self) -> Arc<dyn ServiceHandler> {
        Arc::clone(&self.service)
    }

    /// Opens what LOAD names.
    pub(crate) fn load(&self) -> Arc<dyn LoadHandler> {
        Arc::clone(&self.load)
    }
}

/// Asks endpoints that are on the list.
struct Listed {
    rules: Arc<Rules>,
    endpoints: HttpService,
}

impl ServiceHandler for Listed {
    fn select(
        &self,
        endpoint: &NamedNode,
        query: &str,
        deadline: Option<Instant>,
    ) -> Result<ServiceSolutions, ServiceError> {
        self.endpoints.select(endpoint, query, deadline)
    }

    fn check(&self, endpoint: &NamedNode) -> Result<(), ServiceError> {
        self.endpoints.check(endpoint)?;
        let url: Uri = endpoint
            .as_str()
            .parse()
            .map_err(|_| ServiceError("it is no URL".to_owned()))?;
        self.rules.check_url(&url).map(|_| ()).map_err(ServiceError)
    }
}

/// A client that asks nothing but what it may, and looks names up with `names`.
fn agent(rules: &Arc<Rules>, names: impl Resolver, timeout: Duration, redirects: u32) -> Agent {
    let config: AgentConfig = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(timeout.min(Duration::from_secs(10))))
        .timeout_per_read(Some(timeout))
        .timeout_per_write(Some(timeout))
        .max_redirects(redirects)
        .max_idle_connections_per_host(IDLE_MAX)
        // A proxy would look names up by itself.
        .proxy(None)
        .user_agent(concat!("pythia/", env!("CARGO_PKG_VERSION")))
        .build();
    let resolver = Guarded {
        rules: Arc::clone(rules),
        names,
    };
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

/// Looks names up, for URLs that may be asked. It is asked before every request, a redirect or not,
/// and connections go to the very addresses it gives.
struct Guarded<N> {
    rules: Arc<Rules>,
    names: N,
}

impl<N: Resolver> Resolver for Guarded<N> {
    fn resolve(
        &self,
        uri: &Uri,
        config: &AgentConfig,
        timeout: NextTimeout,
    ) -> Result<ResolvedSocketAddrs, Error> {
        let refused = |what: String| Error::Other(what.into());
        let trust = self.rules.check_url(uri).map_err(refused)?;
        let addresses = self.names.resolve(uri, config, timeout)?;
        for address in addresses.iter() {
            self.rules
                .check_address(uri, trust, address.ip())
                .map_err(refused)?;
        }
        Ok(addresses)
    }
}

impl<N> fmt::Debug for Guarded<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
