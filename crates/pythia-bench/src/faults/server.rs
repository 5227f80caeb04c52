//! A server that is killed under load: clients commit, large files are loaded, graphs are copied and dropped, and
//! compactions, builds of indexes and backups run as tasks, all over HTTP.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rand::Rng;
use rand::rngs::SmallRng;

use super::history::{self, Ledger};
use super::session::Acknowledgements;
use super::store::{LOCKED_MAX, Settings, StoreFolder, is_locked};
use super::{graphs, indexes};
use crate::http::client::{self, Connection};

/// The name of the dataset and of its folder of backups.
const DATASET: &str = "backup";
/// Maximum time of a server to start, or to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that is started, put under load and killed.
pub(super) struct Server<'a> {
    pub(super) program: &'a Path,
    pub(super) home: &'a StoreFolder,
    pub(super) settings: &'a Settings,
    /// The progress of the history so far.
    pub(super) from: &'a Ledger,
}

impl Server<'_> {
    /// Kills the server `life` after it listens, sometimes before. Returns its acknowledgements.
    pub(super) fn kill(&self, life: Duration, random: &mut SmallRng) -> Result<Acknowledgements> {
        let config = self.home.folder().join("pythia.toml");
        std::fs::write(&config, self.config())?;
        let is_early = random.random_range(0..8) == 0;
        let until = Instant::now() + LOCKED_MAX;
        loop {
            match self.kill_once(&config, life, is_early)? {
                Some(heard) => return Ok(heard),
                None => ensure!(Instant::now() < until, "the store stays locked"),
            }
        }
    }

    /// Returns `None` if the server ends at once because this process still has the store's locks: another round
    /// that starts a process passes them to it until that runs its own program.
    fn kill_once(
        &self,
        config: &Path,
        life: Duration,
        is_early: bool,
    ) -> Result<Option<Acknowledgements>> {
        let mut running = Running::start(self.program, config)?;
        if is_early {
            std::thread::sleep(life / 4);
            let has_run = running.end()?;
            return Ok(has_run.then(|| Acknowledgements::new(self.from.commits.len())));
        }
        let Some(address) = running.address()? else {
            return Ok(None);
        };
        let load = Load::new(address, self.from);
        std::thread::scope(|scope| -> Result<()> {
            let load = &load;
            let clients =
                (0..load.commits.len()).map(|client| scope.spawn(move || load.commit(client)));
            let mut threads: Vec<_> = clients.collect();
            threads.push(scope.spawn(move || load.load()));
            threads.push(scope.spawn(move || load.change_graphs()));
            threads.push(scope.spawn(move || load.keep()));
            let until = Instant::now() + life;
            while Instant::now() < until && !threads.iter().any(|thread| thread.is_finished()) {
                std::thread::sleep(Duration::from_millis(1));
            }
            load.is_over.store(true, Ordering::SeqCst);
            let ended = running.end();
            for thread in threads {
                let outcome = thread.join();
                outcome.map_err(|_| anyhow::anyhow!("a client panicked"))??;
            }
            ended.map(|_| ())
        })?;
        Ok(Some(load.heard()))
    }

    fn config(&self) -> String {
        let Settings {
            memory_bytes,
            compaction_quads_min,
            compaction_percent,
            retain_bytes,
            ..
        } = self.settings;
        let mut log_folders = String::new();
        if self.settings.has_second_log {
            log_folders += &format!("log_folders = [{:?}]\n", self.home.second_log());
        }
        if self.settings.has_archive {
            log_folders += &format!("log_archive = {:?}\n", self.home.archive());
            log_folders += &format!("log_spare = {}\n", self.settings.has_spare);
        }
        format!(
            "bind = \"127.0.0.1:0\"\n\
             [datasets.{DATASET}]\npath = {store:?}\ncache = \"16M\"\nmemory = \"64M\"\n\
             [datasets.{DATASET}.write]\nchanges_memory = \"{memory_bytes}\"\nlog_retain = \"{retain_bytes}\"\n\
             compaction_percent = {compaction_percent}\ncompaction_quads_min = {compaction_quads_min}\n\
             compaction_memory = \"16M\"\n{log_folders}\
             [operate]\nbackup_folder = {backups:?}\nwatch = false\n",
            store = self.home.store(),
            backups = self.home.folder(),
        )
    }
}

/// A server that runs until this is dropped.
struct Running {
    child: Child,
    /// Lines of its standard error.
    lines: Receiver<String>,
}

impl Running {
    fn start(program: &Path, config: &Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg("serve").arg("--config").arg(config);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .context("start the server to be killed")?;
        let stderr = child.stderr.take().context("a pipe was asked for")?;
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                // Reads to the end even without a receiver, so that the server never waits.
                let _ = sender.send(line);
            }
        });
        Ok(Self { child, lines })
    }

    /// Waits until the server listens; returns its address, or `None` if it found the store locked.
    fn address(&self) -> Result<Option<SocketAddr>> {
        let until = Instant::now() + PATIENCE;
        let mut seen = Vec::new();
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Ok(line) = self.lines.recv_timeout(left) else {
                if seen.iter().any(|line: &String| is_locked(line)) {
                    return Ok(None);
                }
                bail!("the server did not start: {}", seen.join("\n"));
            };
            if let Some((_, after)) = line.split_once("open http://")
                && let Some((address, _)) = after.split_once('/')
            {
                return Ok(Some(address.parse()?));
            }
            seen.push(line);
        }
    }

    /// Kills it. Returns false if it had found the store locked.
    ///
    /// # Errors
    /// Fails if it had ended by itself for another reason, or one of its threads had panicked.
    fn end(&mut self) -> Result<bool> {
        let ended = self.child.try_wait()?;
        if ended.is_none() {
            self.child.kill()?;
            self.child.wait()?;
        }
        let lines: Vec<String> = self.lines.iter().collect();
        if ended.is_some() && lines.iter().any(|line| is_locked(line)) {
            return Ok(false);
        }
        let panicked = lines.iter().any(|line| line.contains("panicked"));
        ensure!(
            ended.is_none() && !panicked,
            "the server ended by itself or panicked, {ended:?}: {}",
            lines.join("\n")
        );
        Ok(true)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The load of clients on a server, and its acknowledgements.
struct Load {
    address: SocketAddr,
    commits: Vec<AtomicU64>,
    loads: AtomicU64,
    graphs: AtomicU64,
    /// Set before the server is killed; from then on requests may fail.
    is_over: AtomicBool,
}

impl Load {
    fn new(address: SocketAddr, from: &Ledger) -> Self {
        Self {
            address,
            commits: from.commits.iter().copied().map(AtomicU64::new).collect(),
            loads: AtomicU64::new(from.loads),
            graphs: AtomicU64::new(from.graphs),
            is_over: AtomicBool::new(false),
        }
    }

    fn heard(&self) -> Acknowledgements {
        let commits = self.commits.iter();
        Acknowledgements {
            ledger: Ledger {
                commits: commits.map(|last| last.load(Ordering::SeqCst)).collect(),
                loads: self.loads.load(Ordering::SeqCst),
                graphs: self.graphs.load(Ordering::SeqCst),
                origin: None,
            },
            backup: None,
            // All of them are small for a server.
            whole_graphs: 0,
        }
    }

    fn commit(&self, client: usize) -> Result<()> {
        let mut connection = Connection::new(self.address, PATIENCE);
        loop {
            let number = self.commits[client].load(Ordering::SeqCst) + 1;
            let text = history::commit_text(client, number);
            if !self.update(&mut connection, &text)? {
                return Ok(());
            }
            self.commits[client].store(number, Ordering::SeqCst);
            if number.is_multiple_of(4) {
                let of = self.loads.load(Ordering::SeqCst) + 1;
                for text in history::cancel_texts(of, number) {
                    if !self.update(&mut connection, &text)? {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn load(&self) -> Result<()> {
        let mut connection = Connection::new(self.address, PATIENCE);
        loop {
            let number = self.loads.load(Ordering::SeqCst) + 1;
            let path = format!("/{DATASET}/data?default");
            let text = history::load_text(number);
            let request = client::post(self.address, &path, "application/n-triples", &text);
            if !self.ask(&mut connection, &request)? {
                return Ok(());
            }
            self.loads.store(number, Ordering::SeqCst);
        }
    }

    fn change_graphs(&self) -> Result<()> {
        let mut connection = Connection::new(self.address, PATIENCE);
        loop {
            let number = self.graphs.load(Ordering::SeqCst) + 1;
            if !self.update(&mut connection, &graphs::step_text(number))? {
                return Ok(());
            }
            self.graphs.store(number, Ordering::SeqCst);
        }
    }

    /// Starts compactions, backups and builds of optional indexes.
    fn keep(&self) -> Result<()> {
        let mut connection = Connection::new(self.address, PATIENCE);
        let task = |task: &str, media: &str, body: &str| {
            let path = format!("/$/{task}/{DATASET}");
            client::post(self.address, &path, media, body)
        };
        let form = "application/x-www-form-urlencoded";
        // The first commits bring the predicate of the other indexes.
        let is_new = self
            .commits
            .iter()
            .all(|last| last.load(Ordering::SeqCst) == 0);
        let named = if is_new {
            "degrees".to_owned()
        } else {
            indexes::form()
        };
        let tasks = [
            task("optimize", form, &named),
            task("compact", "text/plain", ""),
            task("optimize", form, &named),
            task("backup", "text/plain", ""),
        ];
        for task in tasks.iter().cycle() {
            std::thread::sleep(Duration::from_millis(5));
            if !self.ask(&mut connection, task)? {
                return Ok(());
            }
        }
        Ok(())
    }

    fn update(&self, connection: &mut Connection, text: &str) -> Result<bool> {
        let (path, media) = (format!("/{DATASET}/update"), "application/sparql-update");
        self.ask(connection, &client::post(self.address, &path, media, text))
    }

    /// Sends a request until it succeeds. Returns false if the server was killed.
    fn ask(&self, connection: &mut Connection, request: &[u8]) -> Result<bool> {
        loop {
            let answer = connection.ask(request);
            if self.is_over.load(Ordering::SeqCst) {
                // An answer before the kill counts.
                return Ok(answer.is_ok_and(|answer| (200..300).contains(&answer.status)));
            }
            match answer.context("the server did not answer")?.status {
                200..300 => return Ok(true),
                // Another task, or a transaction in conflict with a compaction.
                409 | 429 | 503 => std::thread::sleep(Duration::from_millis(1)),
                status => {
                    let request = String::from_utf8_lossy(request);
                    bail!("status {status} for {}", &request[..request.len().min(400)]);
                }
            }
        }
    }
}
