//! `pythia probe` with a trace of a whole probe, and with the pauses that follow from it.

use std::fmt::Write as _;
use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn probe(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pythia"));
    let output = command.arg("probe").args(arguments).output();
    output.expect("it starts")
}

#[test]
fn pauses_of_a_trace_keep_the_runs_of_the_next_probe_apart() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (trace, figures, energy) = (path("all.csv"), path("probe.json"), path("energy.json"));
    // Idle for a second, then a run of 0.2 s, and 0.01 s of background work.
    let mut csv = String::from("seconds,volts\n");
    for sample in 0..2000 {
        let volts = if (1000..1210).contains(&sample) {
            0.5
        } else {
            0.1
        };
        writeln!(csv, "{},{volts}", f64::from(sample) / 1e3).unwrap();
    }
    fs::write(&trace, csv).unwrap();
    let run = json!({
        "micro": "granularity", "pattern": "SR", "parameter": 4096, "begin_seconds": 0.5, "end_seconds": 0.7,
        "latency": { "count": 50, "mean_us": 4000.0 },
    });
    fs::write(&figures, json!({ "uflip": [run] }).to_string()).unwrap();

    let arguments = [
        "--energy-trace",
        &trace,
        "--probe",
        &figures,
        "--probe-begin",
        "0.5",
    ];
    let shown = probe(&[&arguments[..], &["--json", &energy]].concat());
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(shown.status.success(), "{text}");
    for part in ["Memoright", "4096", "4,000", "Figure 4"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let analysis: Value = serde_json::from_slice(&fs::read(&energy).unwrap()).unwrap();
    let pause = analysis["pauses"]["SR"].as_f64().unwrap();
    assert!((pause - 0.011).abs() < 0.003, "{pause}");
    let late = probe(&[
        "--energy-trace",
        &trace,
        "--probe",
        &figures,
        "--probe-begin",
        "9",
    ]);
    let text = String::from_utf8_lossy(&late.stderr);
    assert_eq!(late.status.code(), Some(3), "{text}");
    assert!(text.contains("--probe-begin is wrong"), "{text}");

    let quick = [
        "--quick",
        "--seconds",
        "0.1",
        "--size",
        "8M",
        "--json",
        "-",
        "--pauses",
        &energy,
    ];
    let place = folder.path().display().to_string();
    let measured = probe(&[&quick[..], &[&place]].concat());
    let text = String::from_utf8_lossy(&measured.stderr);
    assert!(measured.status.success(), "{text}");
    let report: Value = serde_json::from_slice(&measured.stdout).unwrap();
    let runs = report["uflip"].as_array().unwrap();
    for pair in runs.windows(2) {
        let gap =
            pair[1]["begin_seconds"].as_f64().unwrap() - pair[0]["end_seconds"].as_f64().unwrap();
        let reads = pair[0]["pattern"] == "SR";
        assert!(gap >= if reads { pause } else { 0.0 }, "{pair:?}");
    }
}
