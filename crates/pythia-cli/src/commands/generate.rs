//! `pythia generate`.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, Subcommand, ValueEnum};
use pythia::{Compression, RdfFormat, Source};
use pythia_bench::bsbm as queries;
use pythia_generate::{Part, Summary, bsbm, graph, people, shapes};

use super::load::Resources;
use crate::arguments::{LimitArguments, StoreArguments, UseCaseName, counted, human_bytes};
use crate::exit::UsageError;

/// Generate benchmark data, as N-Triples or directly into a store, and queries on it
#[derive(Args)]
pub(crate) struct Generate {
    #[command(subcommand)]
    data: Data,
}

#[derive(Subcommand)]
enum Data {
    /// Generate data of the Berlin SPARQL Benchmark: products, offers, reviews (about 355 triples
    /// per product)
    Bsbm {
        /// Number of products
        #[arg(long)]
        products: u64,
        #[arg(long, default_value_t = bsbm::Config::DEFAULT_SEED)]
        seed: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Generate a random graph (as in the Pythia paper: out-degree uniform in 3..30), or a
    /// power-law graph
    Graph {
        /// Number of nodes
        #[arg(long)]
        nodes: u64,
        /// Smallest and largest out-degree
        #[arg(long, value_name = "MIN..MAX", default_value = "3..30")]
        degree: String,
        /// Distribution of the degrees
        #[arg(long, value_enum, default_value = "uniform")]
        shape: ShapeName,
        /// Exponent of the power law, above 2
        #[arg(long, default_value_t = 2.5)]
        exponent: f64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Give every node an rdfs:label
        #[arg(long)]
        labels: bool,
        #[command(flatten)]
        output: Output,
    },
    /// Generate people, what they like and what they feel about things, with the cardinalities of
    /// the "Clustered TDB" paper, for `pythia bench ctdb`
    People {
        /// Number of triples
        #[arg(long, value_name = "N")]
        triples: u64,
        /// Number of distinct properties
        #[arg(long, value_name = "N", default_value_t = people::PROPERTIES)]
        properties: u64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[command(flatten)]
        output: Output,
    },
    /// Generate data of known shapes (stars, chains, cliques, skew, correlated predicates, values of
    /// all kinds; about 20 triples per work), for the queries of testdata/corpus
    Shapes {
        /// Number of works
        #[arg(long)]
        works: u64,
        #[arg(long, default_value_t = 1)]
        seed: u64,
        #[command(flatten)]
        output: Output,
    },
    Queries(Queries),
}

/// Generate queries of the Berlin SPARQL Benchmark, with parameters drawn from the data of a store
///
/// Writes one JSON object per line, with "id", "template" and "query", the format of `pythia bench
/// queries`, `pythia bench endpoints` and `pythia bench updates --queries`. A query without
/// results is drawn again, up to --redraws times; standard error reports how often.
///
///   pythia generate queries -l bsbm.pythia --use-case explore --each 20 -o explore.jsonl
///   pythia generate queries -l bsbm.pythia --use-case bi --mixes 5 --seed 7 -o bi.jsonl
#[derive(Args)]
#[command(verbatim_doc_comment)]
struct Queries {
    #[command(flatten)]
    store: StoreArguments,

    /// The use case
    #[arg(long, value_enum)]
    use_case: UseCaseName,

    /// Number of queries of each template
    #[arg(long, default_value_t = 20, value_name = "N")]
    each: usize,

    /// Number of the benchmark's mixes instead: 25 queries each of Explore, one of each template of
    /// BI
    #[arg(long, value_name = "N", conflicts_with = "each")]
    mixes: Option<usize>,

    /// Seed of the parameters
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Number of times that a query without results is drawn again; 0 follows the benchmark's rules
    #[arg(long, default_value_t = 20, value_name = "N")]
    redraws: u32,

    #[command(flatten)]
    limits: LimitArguments,

    /// File to write; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    output: PathBuf,
}

impl Queries {
    fn run(&self) -> Result<()> {
        let options = queries::Options {
            use_case: self.use_case.into(),
            selection: match self.mixes {
                Some(count) => queries::Selection::Mixes(count),
                None => queries::Selection::Each(self.each),
            },
            seed: self.seed,
            redraws: self.redraws,
        };
        let database = self.store.open(&self.limits)?;
        let drawn = queries::draw(&database, &options)?;
        let lines = drawn.lines()?;
        if self.output.as_os_str() == "-" {
            io::stdout().write_all(lines.as_bytes())?;
        } else {
            fs::write(&self.output, lines)
                .with_context(|| format!("write {}", self.output.display()))?;
        }
        eprintln!("{}", drawn.text());
        Ok(())
    }
}

#[derive(Clone, Copy, ValueEnum)]
enum ShapeName {
    Uniform,
    PowerLaw,
}

/// The destination of the data.
#[derive(Args)]
struct Output {
    /// File to write (.nt); - is standard output. With --files, the part's number is appended to
    /// its name
    #[arg(short, long, value_name = "FILE", required_unless_present = "location")]
    output: Option<PathBuf>,

    /// Load directly into a new store instead
    #[arg(short, long, value_name = "STORE", conflicts_with = "output")]
    location: Option<PathBuf>,

    /// Number of files to split the data into
    #[arg(long, default_value_t = 1, value_name = "N")]
    files: u32,

    /// Write only part i of N; the parts can be written on different machines
    #[arg(long, value_name = "i/N")]
    part: Option<String>,

    #[command(flatten, next_help_heading = "With --location")]
    resources: Resources,
}

impl Generate {
    pub(crate) fn run(self) -> Result<()> {
        match self.data {
            Data::Bsbm {
                products,
                seed,
                output,
            } => {
                let config = bsbm::Config::new(products).map_err(usage)?.with_seed(seed);
                let write =
                    |part, mut out: &mut dyn Write| bsbm::write_ntriples(&config, part, &mut out);
                output.produce(write, |part| Box::new(bsbm::reader(&config, part)))
            }
            Data::Graph {
                nodes,
                degree,
                shape,
                exponent,
                seed,
                labels,
                output,
            } => {
                let shape = match shape {
                    ShapeName::Uniform => graph::Shape::Uniform,
                    ShapeName::PowerLaw => graph::Shape::PowerLaw { exponent },
                };
                let config = graph::Config::new(nodes)
                    .and_then(|c| c.with_degrees(degrees(&degree)?))
                    .and_then(|c| c.with_shape(shape))
                    .map_err(usage)?
                    .with_seed(seed)
                    .with_labels(labels);
                let write =
                    |part, mut out: &mut dyn Write| graph::write_ntriples(&config, part, &mut out);
                output.produce(write, |part| Box::new(graph::reader(&config, part)))
            }
            Data::People {
                triples,
                properties,
                seed,
                output,
            } => {
                let config = people::Config::new(triples)
                    .and_then(|config| config.with_properties(properties))
                    .map_err(usage)?
                    .with_seed(seed);
                let write =
                    |part, mut out: &mut dyn Write| people::write_ntriples(&config, part, &mut out);
                output.produce(write, |part| Box::new(people::reader(&config, part)))
            }
            Data::Shapes {
                works,
                seed,
                output,
            } => {
                let config = shapes::Config::new(works).map_err(usage)?.with_seed(seed);
                let write =
                    |part, mut out: &mut dyn Write| shapes::write_ntriples(&config, part, &mut out);
                output.produce(write, |part| Box::new(shapes::reader(&config, part)))
            }
            Data::Queries(queries) => queries.run(),
        }
    }
}

fn usage(error: pythia_generate::GenerateError) -> anyhow::Error {
    UsageError(error.to_string()).into()
}

fn degrees(text: &str) -> Result<std::ops::RangeInclusive<u32>, pythia_generate::GenerateError> {
    let range = text.split_once("..").and_then(|(min, max)| {
        let max = max.strip_prefix('=').unwrap_or(max);
        Some(min.trim().parse().ok()?..=max.trim().parse().ok()?)
    });
    range.ok_or_else(|| pythia_generate::GenerateError::Config {
        name: "the range of degrees",
        value: text.to_owned(),
        expected: "like 3..30",
    })
}

impl Output {
    fn parts(&self) -> Result<Vec<Part>> {
        let Some(part) = &self.part else {
            return Ok(Part::all(self.files.max(1)).collect());
        };
        let wrong = || UsageError(format!("--part {part}: write it as i/N, for example 2/8"));
        let (number, parts) = part.split_once('/').ok_or_else(wrong)?;
        let number = number.parse().map_err(|_| wrong())?;
        let parts = parts.parse().map_err(|_| wrong())?;
        Ok(vec![Part::new(number, parts).map_err(usage)?])
    }

    fn produce<'a>(
        &self,
        write: impl Fn(Part, &mut dyn Write) -> Result<Summary, pythia_generate::GenerateError>,
        reader: impl Fn(Part) -> Box<dyn io::Read + Send + 'static> + 'a,
    ) -> Result<()> {
        let parts = self.parts()?;
        let started = Instant::now();
        let summary = match (&self.location, &self.output) {
            (Some(location), _) => return self.load(location, &parts, reader),
            (None, Some(output)) => {
                let mut total = Summary::default();
                for part in parts {
                    let summary = write_part(output, part, &write)?;
                    total.triples += summary.triples;
                    total.bytes += summary.bytes;
                }
                total
            }
            (None, None) => unreachable!("clap requires one"),
        };
        let seconds = started.elapsed().as_secs_f64();
        eprintln!(
            "wrote {}, {} in {seconds:.2} s",
            counted(summary.triples, "triple"),
            human_bytes(summary.bytes)
        );
        Ok(())
    }

    fn load(
        &self,
        location: &Path,
        parts: &[Part],
        reader: impl Fn(Part) -> Box<dyn io::Read + Send>,
    ) -> Result<()> {
        let mut sources = Vec::new();
        for part in parts {
            let name = format!("generated part {}/{}", part.number(), part.parts());
            sources.push(Source::from_reader(
                name,
                reader(*part),
                RdfFormat::NTriples,
                Compression::None,
            )?);
        }
        let options = self.resources.options(Some(location));
        self.resources.load(location, sources, &options)
    }
}

fn write_part(
    output: &Path,
    part: Part,
    write: impl Fn(Part, &mut dyn Write) -> Result<Summary, pythia_generate::GenerateError>,
) -> Result<Summary> {
    if output.as_os_str() == "-" {
        let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
        let summary = write(part, &mut out)?;
        out.flush()?;
        return Ok(summary);
    }
    let path = if part.parts() == 1 {
        output.to_owned()
    } else {
        let stem = output.file_stem().unwrap_or_default().to_string_lossy();
        let extension = output.extension().unwrap_or_default().to_string_lossy();
        output.with_file_name(format!("{stem}-{:04}.{extension}", part.number()))
    };
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    let mut out = BufWriter::with_capacity(1 << 20, file);
    let summary = write(part, &mut out)?;
    out.flush()
        .with_context(|| format!("write {}", path.display()))?;
    Ok(summary)
}
