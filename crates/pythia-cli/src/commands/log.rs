//! `pythia log`.

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use pythia::{Commit, Feed, Position, StoreError, parse_time, write_patch};

/// Print commits in order, as N-Quads patches
///
/// Reads the log and its archive, even while the store is being written to.
///
///   pythia log -l STORE --from 17 --follow
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Log {
    /// The folder of the store
    #[arg(short, long, env = "PYTHIA_LOCATION", value_name = "STORE")]
    location: PathBuf,

    /// The folder of the log's archive [default: the archive known to the store, if available]
    #[arg(long, value_name = "DIR")]
    archive: Option<PathBuf>,

    /// The first commit to print [default: 1]
    #[arg(long, value_name = "POSITION", conflicts_with = "since")]
    from: Option<u64>,

    /// Start with the first commit at this time or later, for example 2026-11-22T07:30:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    since: Option<u64>,

    /// Continue with new commits until interrupted
    #[arg(long)]
    follow: bool,

    /// Print only each commit's position, time and numbers of quads
    #[arg(long)]
    summary: bool,
}

/// Time between checks for new commits.
const POLL: Duration = Duration::from_millis(200);

impl Log {
    pub(crate) fn run(self) -> Result<()> {
        let Some(feed) = self.feed()? else {
            return Ok(());
        };
        let mut out = BufWriter::new(io::stdout().lock());
        let mut next = match self.since {
            None => Position(self.from.unwrap_or(1)),
            Some(_) => feed.first()?,
        };
        loop {
            for commit in feed.commits_from(next)? {
                let commit = commit?;
                next = commit.position.next();
                if self.since.is_none_or(|time| commit.time >= time) {
                    self.print(&commit, &mut out)?;
                }
            }
            out.flush()?;
            if !self.follow {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Opens the log. A store that was never opened for writing has none: no commits, unless someone makes the first
    /// while this command follows.
    fn feed(&self) -> Result<Option<Feed>> {
        loop {
            match Feed::open(&self.location, self.archive.as_deref()) {
                Err(StoreError::NoLog) if self.follow => std::thread::sleep(POLL),
                Err(StoreError::NoLog) => return Ok(None),
                feed => return Ok(Some(feed?)),
            }
        }
    }

    fn print(&self, commit: &Commit, out: &mut impl Write) -> Result<()> {
        if self.summary {
            let (mut added, mut removed) = (0_u64, 0_u64);
            for changes in commit.changes() {
                for change in changes.map_err(StoreError::from)?.changes() {
                    *(if change.added {
                        &mut added
                    } else {
                        &mut removed
                    }) += 1;
                }
            }
            let time = pythia::format_time(commit.time);
            writeln!(out, "{}\t{time}\t+{added}\t-{removed}", commit.position)?;
        } else {
            write_patch(commit, out)?;
        }
        Ok(())
    }
}
