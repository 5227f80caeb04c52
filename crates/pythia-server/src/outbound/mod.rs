//! Outbound requests on behalf of clients: SERVICE and LOAD.
//!
//! Clients choose the URLs, so these must be on an allow-list. The owner of a name chooses its addresses, so every
//! address is checked too, each time and right before the connection is made. Redirects are checked like any other
//! request: LOAD follows those that are allowed, SERVICE follows none.

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

/// Limit on redirects that LOAD follows.
const REDIRECTS_MAX: u32 = 5;
/// Idle connections kept open for each endpoint.
const IDLE_MAX: usize = 8;

/// The handlers of SERVICE and LOAD.
pub(crate) struct Outbound {
    service: Arc<dyn ServiceHandler>,
    load: Arc<dyn LoadHandler>,
}

impl Outbound {
    /// Makes the handlers from the configuration.
    ///
    /// # Errors
    /// The wrong entry.
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
            service: Arc::new(ListedEndpoints {
                rules,
                endpoints: service,
            }),
            load: Arc::new(load),
        })
    }

    /// Returns the handler of SERVICE.
    pub(crate) fn service(&self) -> Arc<dyn ServiceHandler> {
        Arc::clone(&self.service)
    }

    /// Returns the handler of LOAD.
    pub(crate) fn load(&self) -> Arc<dyn LoadHandler> {
        Arc::clone(&self.load)
    }
}

/// Sends queries to endpoints on the allow-list.
struct ListedEndpoints {
    rules: Arc<Rules>,
    endpoints: HttpService,
}

impl ServiceHandler for ListedEndpoints {
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
            .map_err(|_| ServiceError("it is not a URL".to_owned()))?;
        self.rules.check_unresolved(&url).map_err(ServiceError)
    }
}

/// Makes a client that sends only allowed requests and resolves names with `names`.
fn agent(rules: &Arc<Rules>, names: impl Resolver, timeout: Duration, redirects: u32) -> Agent {
    let config: AgentConfig = Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(timeout.min(Duration::from_secs(10))))
        .timeout_per_read(Some(timeout))
        .timeout_per_write(Some(timeout))
        .max_redirects(redirects)
        .max_idle_connections_per_host(IDLE_MAX)
        // A proxy would resolve names by itself.
        .proxy(None)
        .user_agent(concat!("pythia/", env!("CARGO_PKG_VERSION")))
        .build();
    let resolver = GuardedResolver {
        rules: Arc::clone(rules),
        names,
    };
    Agent::with_parts(config, DefaultConnector::default(), resolver)
}

/// Resolves the names of allowed URLs. The client calls it before every request, redirects included, and connects
/// to exactly the addresses that it returns.
struct GuardedResolver<N> {
    rules: Arc<Rules>,
    names: N,
}

impl<N: Resolver> Resolver for GuardedResolver<N> {
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

impl<N> fmt::Debug for GuardedResolver<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guarded")
            .field("rules", &self.rules)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
