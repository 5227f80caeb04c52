//! `pythia ping`.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use ureq::Agent;

use crate::arguments::time;

/// Longest part of an answer that is shown.
const ANSWER_BYTES_MAX: u64 = 200;

/// Ask a server whether it is well: exit code 0 if it is
///
/// For health checks of containers and supervisors, where no other HTTP client is installed.
#[derive(Args)]
pub(crate) struct Ping {
    /// The server
    #[arg(value_name = "URL", default_value = "http://127.0.0.1:7878")]
    url: String,

    /// Ask whether the server takes requests, not only whether it runs
    #[arg(long)]
    ready: bool,

    /// Time to wait for the answer (500ms, 30s)
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "5s")]
    timeout: Duration,
}

impl Ping {
    pub(crate) fn run(self) -> Result<()> {
        let path = if self.ready { "$/ready" } else { "$/health" };
        let url = format!("{}/{path}", self.url.trim_end_matches('/'));
        let agent: Agent = Agent::config_builder()
            .http_status_as_error(false)
            .proxy(None)
            .timeout_global(Some(self.timeout))
            .build()
            .into();
        let mut answer = agent
            .get(&url)
            .call()
            .with_context(|| format!("no answer from {url}"))?;
        let text = answer
            .body_mut()
            .with_config()
            .limit(ANSWER_BYTES_MAX)
            .read_to_string();
        let text = text.unwrap_or_default();
        if !answer.status().is_success() {
            bail!("{url} answers {}: {}", answer.status(), text.trim());
        }
        writeln!(io::stdout(), "{}", text.trim())?;
        Ok(())
    }
}
