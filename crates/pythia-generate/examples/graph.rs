//! Writes a random graph to a file:
//! `cargo run --release -p pythiadb-generate --example graph -- NODES FILE [EXPONENT]`.
//! With an exponent, degrees follow a power law.

use pythia_generate::{Part, graph};
use std::error::Error;
use std::fs::File;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [nodes, path, exponent @ ..] = arguments.as_slice() else {
        return Err("usage: graph NODES FILE [EXPONENT]".into());
    };
    let mut config = graph::Config::new(nodes.parse()?)?;
    if let Some(exponent) = exponent.first() {
        let exponent = exponent.parse()?;
        config = config
            .with_shape(graph::Shape::PowerLaw { exponent })?
            .with_degrees(3..=10_000)?;
    }
    println!("expecting {} triples", graph::expected_triples(&config));
    let start = Instant::now();
    let mut file = File::create(path)?;
    let summary = graph::write_ntriples(&config, Part::WHOLE, &mut file)?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} triples, {} bytes in {seconds:.2} s: {:.2} million triples/s",
        summary.triples,
        summary.bytes,
        summary.triples as f64 / seconds / 1e6
    );
    Ok(())
}
