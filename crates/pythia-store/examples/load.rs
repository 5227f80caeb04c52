//! Loads files into a store and prints what it took: `load STORE MEMORY_MB FILE…`, or
//! `load --parse-only MEMORY_MB FILE…` for the time that parsing alone takes.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pythia_rdf::Source;
use pythia_store::load::{LoadOptions, LoadProgress, parse_only};
use pythia_store::store::load_into;

/// As the `pythia` program does.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [store, memory_mb, files @ ..] = &args[..] else {
        return Err("usage: load STORE|--parse-only MEMORY_MB FILE…".into());
    };
    let mut options = LoadOptions {
        memory_bytes: memory_mb.parse::<usize>()? << 20,
        ..LoadOptions::default()
    };
    if let Ok(tmp) = std::env::var("PYTHIA_TMP") {
        options.tmp = tmp.into();
    }
    if let Ok(threads) = std::env::var("PYTHIA_THREADS") {
        options.threads = Some(threads.parse()?);
    }
    let mut sources = Vec::new();
    for (scope, file) in files.iter().enumerate() {
        let source = Source::from_path(Path::new(file), None, None)?;
        sources.push(source.with_blank_node_scope((files.len() > 1).then_some(scope as u64)));
    }
    let progress = Arc::new(LoadProgress::default());
    let memory = Arc::clone(&progress);
    std::thread::spawn(move || watch_memory(&memory));
    let started = Instant::now();
    if store == "--parse-only" {
        println!("{:#?}", parse_only(sources, &options, &progress)?);
    } else {
        let report = load_into(Path::new(store), sources, &options, &progress)?;
        println!("{report:#?}");
        for file in std::fs::read_dir(Path::new(store).join("segment-000001"))? {
            let file = file?;
            let bytes = file.metadata()?.len();
            let per_quad = bytes as f64 / report.quads as f64;
            println!(
                "{:>14} bytes {per_quad:6.2} per quad {}",
                bytes,
                file.file_name().display()
            );
        }
    }
    println!("{:.3} s", started.elapsed().as_secs_f64());
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        let lines = status.lines().filter(|line| line.starts_with("VmHWM"));
        lines.for_each(|line| println!("{line}"));
    }
    Ok(())
}

/// Says at the end of each phase how much memory the process had at most.
fn watch_memory(progress: &LoadProgress) {
    let mut phase = None;
    let mut pages_max = 0;
    loop {
        let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
        let pages = statm
            .split(' ')
            .nth(1)
            .and_then(|pages| pages.parse::<u64>().ok());
        if progress.phase() != phase {
            if let Some(ended) = phase {
                eprintln!("{:>6} MiB at most: {}", pages_max >> 8, ended.name);
            }
            (phase, pages_max) = (progress.phase(), 0);
        }
        pages_max = pages_max.max(pages.unwrap_or(0));
        std::thread::sleep(Duration::from_millis(5));
    }
}
