//! The report as text.

use super::{Live, Report, Run, Shape};
use crate::table::{Table, count, figure, plain_text};

/// Writes of 4 KiB that one flash chip of 4 GB takes in a second, and its random reads (the article, §1).
const CHIP_WRITES: f64 = 5000.0;
const CHIP_READS: f64 = 10_000.0;
/// Bytes of the article's pages; an append writes one.
const PAGE_BYTES: f64 = 4096.0;
/// Numbers of executors for which rates are computed.
const COMPUTED_EXECUTORS: [usize; 5] = [1, 2, 4, 8, 16];

impl Report {
    /// Formats the report as text.
    pub fn text(&self) -> String {
        let mut tables = vec![
            self.alone_table(),
            self.computed_table(),
            self.paper_table(),
        ];
        tables.push(self.live_table());
        tables.push(self.writer_table());
        plain_text("The meld of Hyder", &self.machine.describe(), &tables)
    }

    fn alone_table(&self) -> Table {
        let mut table = Table::new(
            format!(
                "Execution and meld by one thread in turn, measured: {} items, snapshots {} intentions behind",
                count(self.items),
                self.behind
            ),
            &[
                "transactions",
                "isolation",
                "conflicts %",
                "aborted %",
                "bytes",
                "execute µs",
                "meld µs",
                "melds/s",
            ],
        );
        for alone in &self.alone {
            let mut cells = run_cells(&alone.run);
            cells.push(percent(alone.aborted, alone.transactions));
            cells.push(figure(alone.intention_bytes));
            cells.push(figure(alone.execute_us));
            cells.push(figure(alone.meld_us));
            cells.push(figure(alone.melds_per_second()));
            table.row(cells);
        }
        table.note(
            "Transactions: items that are only read + items that are read and written. Conflicts: the share aimed at. Times \
             are medians of turns, each as long as the snapshots are behind.",
        );
        table.note(
            "Melds/s is the rate that one melder sustains, in memory, with aborted transactions.",
        );
        table
    }

    fn computed_table(&self) -> Table {
        let executors = COMPUTED_EXECUTORS.map(|executors| format!("{executors}/s"));
        let mut header = vec!["transactions", "isolation", "conflicts %", "meld's share %"];
        header.push("saturated by");
        header.extend(executors.iter().map(String::as_str));
        let mut table = Table::new(
            "Rates of several executors and a melder with a core each, computed from the times above",
            &header,
        );
        for alone in &self.alone {
            let mut cells = run_cells(&alone.run);
            let share = alone.meld_us / (alone.meld_us + alone.execute_us);
            cells.push(figure(share * 100.0));
            cells.push(figure(alone.saturating_executors()));
            let rates = COMPUTED_EXECUTORS.map(|count| alone.transactions_per_second(count));
            cells.extend(rates.map(figure));
            table.row(cells);
        }
        table.note(
            "Saturated by: the number of executors that give one melder as much as it can meld. Beyond it, more executors \
             bring nothing. In a cluster each server melds all intentions, so more melders bring nothing either.",
        );
        table
    }

    fn paper_table(&self) -> Table {
        let mut table = Table::new(
            "One melder beside the article's flash chip of 4 GB: chips whose appends it melds",
            &[
                "transactions",
                "isolation",
                "chip/s",
                "melds/s",
                "ratio",
                "intentions a page",
            ],
        );
        let least = self.alone.iter().map(|alone| alone.run.conflicts);
        let least = least.fold(f64::INFINITY, f64::min);
        for alone in self
            .alone
            .iter()
            .filter(|alone| alone.run.conflicts == least)
        {
            table.row(vec![
                alone.run.shape.to_string(),
                alone.run.isolation.to_owned(),
                figure(CHIP_WRITES),
                figure(alone.melds_per_second()),
                figure(alone.melds_per_second() / CHIP_WRITES),
                figure(PAGE_BYTES / alone.intention_bytes),
            ]);
        }
        table.note(format!(
            "The article (§1) has {} writes and {} reads of 4 KiB a second for a chip, and no rate of transactions. Chip/s: \
             appends of a page with one intention each.",
            figure(CHIP_WRITES),
            figure(CHIP_READS)
        ));
        table
    }

    fn live_table(&self) -> Table {
        let mut table = Table::new(
            "Executors beside one melder, measured on this machine's cores",
            &[
                "transactions",
                "isolation",
                "conflicts %",
                "log",
                "executors",
                "aborted %",
                "transactions/s",
                "committed/s",
                "melder busy %",
            ],
        );
        for live in &self.live {
            let mut cells = run_cells(&live.run);
            cells.push(place(live.durable));
            cells.push(live.executors.to_string());
            cells.push(percent(live.aborted, live.transactions));
            cells.push(figure(live.transactions_per_second));
            cells.push(figure(live.committed_per_second()));
            cells.push(figure(live.melder_busy * 100.0));
            table.row(cells);
        }
        table
            .note("Each log was melded a second time, with the same decisions and the same state.");
        table
    }

    fn writer_table(&self) -> Table {
        let mut table = Table::new(
            "The single writer of a store, measured, and the meld with as many writes",
            &["writes", "log", "clients", "commits/s", "melded/s", "ratio"],
        );
        for writer in &self.writer {
            let melded = self.live.iter().find(|live| {
                live.run.shape.writes == writer.quads as u64
                    && (live.executors, live.durable) == (writer.clients, writer.durable)
                    && live.run.isolation == "snapshot"
            });
            let melded = melded.map_or(f64::NAN, Live::committed_per_second);
            table.row(vec![
                writer.quads.to_string(),
                place(writer.durable),
                writer.clients.to_string(),
                figure(writer.commits_per_second),
                figure(melded),
                figure(melded / writer.commits_per_second),
            ]);
        }
        table.note(
            "A commit of the writer adds quads with new terms to a dictionary and four orders; a melded transaction \
             overwrites items of 32 bytes in one tree. A client waits for each of its commits; executors wait only for the \
             states that they need.",
        );
        table
    }
}

impl Live {
    /// Returns the transactions that committed in a second.
    pub fn committed_per_second(&self) -> f64 {
        let committed = (self.transactions - self.aborted) as f64 / self.transactions as f64;
        self.transactions_per_second * committed
    }
}

fn run_cells(run: &Run) -> Vec<String> {
    let Shape { reads, writes } = run.shape;
    let isolation = run.isolation.to_owned();
    let conflicts = figure(run.conflicts * 100.0);
    vec![format!("{reads}+{writes}"), isolation, conflicts]
}

fn percent(part: u64, all: u64) -> String {
    figure(part as f64 * 100.0 / all as f64)
}

fn place(durable: bool) -> String {
    if durable { "device" } else { "memory" }.to_owned()
}
