//! `pythia stats`.

use std::io::{self, BufWriter, Write};

use anyhow::Result;
use clap::Args;
use pythia::{DegreeDistribution, DeviceProfile, End, OrderContents, StoreReport};
use serde_json::json;

use crate::arguments::{StoreArguments, counted, human_bytes, human_count};

/// Show statistics of a store: sizes per order, predicates, degrees
#[derive(Args)]
pub(crate) struct Stats {
    #[command(flatten)]
    store: StoreArguments,

    /// Number of predicates to list, the most frequent first
    #[arg(long, default_value_t = 20, value_name = "N")]
    predicates: usize,

    /// Also count degrees, which reads all tuple pages
    #[arg(long)]
    degrees: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Stats {
    pub(crate) fn run(self) -> Result<()> {
        let database = self.store.open_without_queries()?;
        let report = StoreReport::new(database.store());
        let snapshot = database.snapshot();
        let degrees = if self.degrees {
            vec![
                (
                    "out-degree of subjects",
                    DegreeDistribution::new(&snapshot, End::Subject)?,
                ),
                (
                    "in-degree of objects",
                    DegreeDistribution::new(&snapshot, End::Object)?,
                ),
            ]
        } else {
            Vec::new()
        };
        let predicates = self.predicate_rows(&report, &snapshot)?;
        let auxiliary = report
            .auxiliary
            .iter()
            .map(|(kind, bytes)| Ok((pythia::describe_auxiliary(kind, &snapshot)?, *bytes)));
        let auxiliary = auxiliary.collect::<Result<Vec<_>>>()?;
        let mut out = BufWriter::new(io::stdout().lock());
        if self.json {
            print_json(
                &report,
                &predicates,
                &degrees,
                snapshot.device(),
                &auxiliary,
                &mut out,
            )?;
        } else {
            print_text(&report, &predicates, &degrees, &auxiliary, &mut out)?;
            writeln!(out, "\n{}", snapshot.device())?;
        }
        out.flush()?;
        Ok(())
    }

    fn predicate_rows(
        &self,
        report: &StoreReport,
        snapshot: &pythia::Snapshot,
    ) -> Result<Vec<PredicateRow>> {
        let mut predicates: Vec<_> = report.statistics.predicates.iter().collect();
        predicates.sort_by_key(|p| (std::cmp::Reverse(p.quads), p.predicate));
        predicates.truncate(self.predicates);
        let ids: Vec<_> = predicates.iter().map(|p| p.predicate).collect();
        let names = snapshot.decode(&ids)?;
        let rows = predicates.iter().zip(names).map(|(p, name)| PredicateRow {
            name: name.to_string(),
            quads: p.quads,
            subjects: p.subjects,
            objects: p.objects,
        });
        Ok(rows.collect())
    }
}

struct PredicateRow {
    name: String,
    quads: u64,
    subjects: u64,
    objects: u64,
}

type Degrees = [(&'static str, DegreeDistribution)];

/// Returns the number of named graphs, or that there are more than are counted one by one.
fn named_graphs(report: &StoreReport) -> String {
    let graphs = &report.statistics.graphs;
    let listed = graphs.graphs.iter().filter(|(graph, _)| graph.is_bound());
    let count = counted(listed.count() as u64, "named graph");
    match graphs.is_complete() {
        true => count,
        false => format!("more than {count}"),
    }
}

fn print_text(
    report: &StoreReport,
    predicates: &[PredicateRow],
    degrees: &Degrees,
    auxiliary: &[(String, u64)],
    out: &mut impl Write,
) -> Result<()> {
    let s = &report.statistics;
    writeln!(
        out,
        "{}, {}, {}, {}, {}",
        counted(s.quads, "quad"),
        counted(s.subjects, "distinct subject"),
        counted(s.objects, "distinct object"),
        counted(s.predicates.len() as u64, "predicate"),
        named_graphs(report),
    )?;
    writeln!(out)?;
    writeln!(
        out,
        "{:<12}{:>12}{:>16}  pages",
        "file", "size", "bytes/quad"
    )?;
    for order in &report.orders {
        let on_one_page = match (order.share_on_one_page(), &order.contents) {
            (Some(share), OrderContents::Tuples(tuples)) => format!(
                ", {:.3} % of tuples fit one page, {} lists in columns",
                share * 100.0,
                human_count(tuples.external_lists),
            ),
            _ => String::new(),
        };
        writeln!(
            out,
            "{:<12}{:>12}{:>16.2}  {} of {}{on_one_page}",
            order.order.name(),
            human_bytes(order.file.bytes()),
            report.per_quad(order.file.bytes()),
            human_count(order.file.pages),
            human_bytes(order.file.page_bytes as u64),
        )?;
    }
    for (what, bytes) in auxiliary {
        let size = human_bytes(*bytes);
        writeln!(
            out,
            "{:<12}{size:>12}{:>16.2}  {what}",
            "optimized",
            report.per_quad(*bytes)
        )?;
    }
    for (name, bytes) in [
        ("orders", report.order_bytes()),
        ("dictionary", report.dictionary.bytes()),
        ("directory", report.directory_bytes),
        ("everything", report.total_bytes()),
    ] {
        writeln!(
            out,
            "{name:<12}{:>12}{:>16.2}",
            human_bytes(bytes),
            report.per_quad(bytes)
        )?;
    }
    writeln!(
        out,
        "in memory while open: {} of directories",
        human_bytes(report.directory_memory_bytes as u64)
    )?;
    writeln!(out, "\n{:<14}{:>14}{:>14}", "terms", "count", "text")?;
    for (kind, statistics) in &report.kinds {
        writeln!(
            out,
            "{:<14}{:>14}{:>14}",
            format!("{kind:?}"),
            human_count(statistics.terms),
            human_bytes(statistics.key_bytes),
        )?;
    }
    writeln!(
        out,
        "\n{:>14}{:>14}{:>14}  predicate",
        "quads", "subjects", "objects"
    )?;
    for row in predicates {
        writeln!(
            out,
            "{:>14}{:>14}{:>14}  {}",
            human_count(row.quads),
            human_count(row.subjects),
            human_count(row.objects),
            row.name,
        )?;
    }
    for (name, degrees) in degrees {
        writeln!(out, "\n{name}: {} at most", human_count(degrees.degree_max))?;
        for (bucket, nodes) in degrees.buckets.iter().enumerate() {
            let from = 1_u64 << bucket;
            writeln!(
                out,
                "{:>14} – {:<14}{:>14} nodes",
                human_count(from),
                human_count(from * 2 - 1),
                human_count(*nodes)
            )?;
        }
    }
    Ok(())
}

fn print_json(
    report: &StoreReport,
    predicates: &[PredicateRow],
    degrees: &Degrees,
    device: &DeviceProfile,
    auxiliary: &[(String, u64)],
    out: &mut impl Write,
) -> Result<()> {
    let s = &report.statistics;
    let orders: Vec<_> = report
        .orders
        .iter()
        .map(|order| {
            json!({
                "order": order.order.name(),
                "bytes": order.file.bytes(),
                "pages": order.file.pages,
                "page_bytes": order.file.page_bytes,
                "share_on_one_page": order.share_on_one_page(),
            })
        })
        .collect();
    let predicates: Vec<_> = predicates
        .iter()
        .map(|p| {
            json!({
                "predicate": p.name,
                "quads": p.quads,
                "subjects": p.subjects,
                "objects": p.objects,
            })
        })
        .collect();
    let degrees: serde_json::Map<_, _> = degrees
        .iter()
        .map(|(name, d)| {
            let value = json!({ "nodes": d.nodes, "max": d.degree_max, "log2_buckets": d.buckets });
            ((*name).to_owned(), value)
        })
        .collect();
    let auxiliary: Vec<_> = auxiliary
        .iter()
        .map(|(what, bytes)| json!({ "what": what, "bytes": bytes }))
        .collect();
    let value = json!({
        "quads": s.quads,
        "subjects": s.subjects,
        "objects": s.objects,
        "orders": orders,
        "dictionary_bytes": report.dictionary.bytes(),
        "directory_bytes": report.directory_bytes,
        "total_bytes": report.total_bytes(),
        "bytes_per_quad": report.per_quad(report.total_bytes()),
        "predicates": predicates,
        "degrees": degrees,
        "device": device,
        "auxiliary": auxiliary,
    });
    writeln!(out, "{value:#}")?;
    Ok(())
}
