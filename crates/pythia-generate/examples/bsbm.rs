//! Writes the data set of the Berlin SPARQL Benchmark to a file:
//! `cargo run --release -p pythiadb-generate --example bsbm -- PRODUCTS FILE [PART/PARTS]`.

use pythia_generate::{Part, bsbm};
use std::error::Error;
use std::fs::File;
use std::time::Instant;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [products, path, part @ ..] = arguments.as_slice() else {
        return Err("usage: bsbm PRODUCTS FILE [PART/PARTS]".into());
    };
    let part = match part.first() {
        Some(part) => part.parse()?,
        None => Part::WHOLE,
    };
    let config = bsbm::Config::new(products.parse()?)?;
    println!(
        "expecting {} triples in all",
        bsbm::expected_triples(&config)
    );
    let start = Instant::now();
    let mut file = File::create(path)?;
    let summary = bsbm::write_ntriples(&config, part, &mut file)?;
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{} triples, {} bytes in {seconds:.2} s: {:.2} million triples/s",
        summary.triples,
        summary.bytes,
        summary.triples as f64 / seconds / 1e6
    );
    Ok(())
}
