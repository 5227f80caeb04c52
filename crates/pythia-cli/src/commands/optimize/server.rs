//! Asks the server that has a store open to build or drop its optional indexes.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use pythia::Auxiliary;
use pythia_server::ServerFile;
use serde_json::{Value, json};
use ureq::Agent;
use ureq::http::{Method, Request};

/// Time between two looks at a task.
const INTERVAL: Duration = Duration::from_millis(200);
/// Time for one request.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The server that has a store open.
pub(super) struct StoreServer {
    file: ServerFile,
    agent: Agent,
}

impl StoreServer {
    /// Finds the server by the file in the store's folder. `None` if there is no server, or it has ended without removing
    /// its file.
    pub(super) fn of(location: &Path) -> Result<Option<Self>> {
        let Some(file) = ServerFile::read(location) else {
            return Ok(None);
        };
        let agent = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None)
            .timeout_global(Some(TIMEOUT))
            .build();
        let server = Self {
            file,
            agent: agent.into(),
        };
        if server.file.url.starts_with("https:") {
            bail!(
                "the server at {} has the store open, and speaks TLS only: ask it by POST /$/optimize/{} (docs/server.md)",
                server.file.url,
                server.file.dataset
            );
        }
        // Nobody answers, or another server that does not know the token.
        let answers = server
            .send(Method::GET, &server.path(), &Value::Null)
            .is_ok();
        Ok(answers.then_some(server))
    }

    /// Has the named indexes built or dropped, waits, and prints the outcome.
    pub(super) fn change(&self, named: &Auxiliary, drop: bool, out: &mut impl Write) -> Result<()> {
        let attributes = named
            .attributes
            .iter()
            .map(|attribute| json!({ "predicate": attribute.predicate, "along": attribute.along }));
        let wanted = json!({
            "reachability": named.reachability,
            "attributes": attributes.collect::<Vec<_>>(),
            "degrees": named.degrees,
            "drop": drop,
        });
        let started = self.send(Method::POST, &self.path(), &wanted)?;
        let task = started["taskId"]
            .as_str()
            .context("the server named no task")?;
        let path = format!("/$/tasks/{task}");
        eprintln!(
            "the server at {} has the store open: waiting for its task {task} (to cancel it: DELETE {path})",
            self.file.url
        );
        let ended = loop {
            let state = self.send(Method::GET, &path, &Value::Null)?;
            if state.get("finished").is_some() {
                break state;
            }
            std::thread::sleep(INTERVAL);
        };
        let message = ended["message"].as_str().unwrap_or_default();
        if ended["success"] != true {
            bail!("{message}");
        }
        writeln!(out, "{message}")?;
        Ok(())
    }

    fn path(&self) -> String {
        format!("/$/optimize/{}", self.file.dataset)
    }

    /// Returns the JSON of an answer.
    fn send(&self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let bytes = match body {
            Value::Null => Vec::new(),
            body => serde_json::to_vec(body)?,
        };
        let request = Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.file.url))
            .header("authorization", format!("Bearer {}", self.file.token))
            .header("content-type", "application/json")
            .body(bytes)?;
        let asking = || format!("ask the server at {}", self.file.url);
        let mut response = self.agent.run(request).with_context(asking)?;
        let text = response.body_mut().read_to_string().with_context(asking)?;
        match response.status().is_success() {
            true => Ok(serde_json::from_str(&text)?),
            false => Err(anyhow!("{}", text.trim()).context(asking())),
        }
    }
}
