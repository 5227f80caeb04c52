//! A small run of everything, and traces with known energy.

use std::fs;
use std::time::Duration;

use super::energy::{Background, PowerCounters, Shunt, Trace, background};
use super::patterns::{Pauses, Profile, RecordedProbe, idle_table};
use super::uflip::Pattern;
use super::*;
use crate::table::figure;

#[test]
fn a_small_run_measures_and_reports_everything() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options {
        file_bytes: 16 << 20,
        duration: Duration::from_millis(300),
        singles: 20,
        pauses: Pauses::NONE,
    };
    let mut parts = Vec::new();
    let report = run(folder.path(), &options, |part| parts.push(part.to_owned())).expect("room");
    assert_eq!(parts.len(), 4);
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0);
    let profile = report.profile();
    assert!(profile.is_plausible(), "{profile:?}");
    assert_eq!((profile.origin, profile.random.len()), (Origin::Full, 4));
    let text = report.text();
    for part in [
        "reads, PCM of 2012",
        "sweet spot",
        "fdatasync",
        "Partitioning",
        "Bursts",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let html = report.html();
    assert_eq!(html.matches("<svg").count(), 12);
    let json = serde_json::to_value(&report).expect("figures");
    assert_eq!(
        json["single"][0]["microseconds"].as_array().map(Vec::len),
        Some(20)
    );
}

const SHUNT: Shunt = Shunt {
    ohm: 1.0,
    supply_volt: 5.0,
    idle_seconds: 1.0,
};

/// Returns a trace of 1 kHz with a little noise; `volts` maps seconds to volts.
fn trace(seconds: f64, volts: impl Fn(f64) -> f64) -> Trace {
    let mut text = String::from("time,volt\n");
    for i in 0..(seconds * 1e3) as u32 {
        let time = f64::from(i) / 1e3;
        let noise = f64::from(i * 7919 % 101) / 101.0 * 0.004;
        text += &format!("{time},{}\n", volts(time) + noise);
    }
    Trace::parse(&text).expect("a sound trace")
}

#[test]
fn a_run_is_found_and_its_energy_is_that_of_the_formula() {
    // 0.1 V idle; from 1.5 s to 3.5 s 0.5 V: (0.5 / 1) · (5 − 0.5) W for 2 s.
    let trace = trace(5.0, |t| if (1.5..3.5).contains(&t) { 0.5 } else { 0.1 });
    let energy = trace.analyse(&SHUNT, Some(3.0));
    let (begin, end) = energy.run.expect("it departs");
    assert!(
        (begin - 1.5).abs() < 0.01 && (end - 3.5).abs() < 0.01,
        "{energy:?}"
    );
    assert!((energy.idle_watt - 0.49).abs() < 0.02, "{energy:?}");
    assert!((energy.joule - 4.5).abs() < 0.05, "{energy:?}");
    assert!((energy.joule_above_idle - 3.52).abs() < 0.05, "{energy:?}");
    let background = energy
        .background_seconds
        .expect("the last transfer is known");
    assert!((background - 0.5).abs() < 0.01);
}

#[test]
fn an_idle_device_and_its_spikes_are_no_run() {
    let spikes = trace(4.0, |t| if (t * 1e3) as u32 % 100 < 3 { 0.4 } else { 0.1 });
    let energy = spikes.analyse(&SHUNT, Some(2.0));
    assert_eq!((energy.run, energy.joule), (None, 0.0));
    assert_eq!(energy.background_seconds, Some(0.0));
}

/// Returns the figures of a probe with runs of 100 transfers: micro-benchmark, pattern, parameter, begin and end.
fn recorded(runs: &[(&str, &str, i64, f64, f64)]) -> RecordedProbe {
    let runs = runs.iter().map(|(micro, pattern, parameter, begin, end)| {
        serde_json::json!({
            "micro": micro, "pattern": pattern, "parameter": parameter,
            "begin_seconds": begin, "end_seconds": end,
            "latency": { "count": 100, "mean_us": (end - begin) * 1e4 },
        })
    });
    let probe = serde_json::json!({ "uflip": runs.collect::<Vec<_>>() });
    RecordedProbe::parse(&probe.to_string()).expect("the figures of a probe")
}

#[test]
fn each_pattern_has_its_energy_and_the_pause_that_follows() {
    // The probe begins at 1 s. Sequential writes of 4 KiB are followed by 0.4 s of work, of 8 KiB by 0.9 s; random
    // writes by work until the next run begins.
    let probe = recorded(&[
        ("granularity", "SR", 4096, 1.0, 2.0),
        ("granularity", "SW", 4096, 3.0, 4.0),
        ("granularity", "SW", 8192, 6.0, 7.0),
        ("granularity", "RW", 4096, 9.0, 10.0),
        ("granularity", "RR", 4096, 10.5, 11.5),
    ]);
    let busy = [(2.0, 3.0), (4.0, 5.4), (7.0, 8.9), (10.0, 12.5)];
    let trace = trace(15.0, |t| {
        match busy.iter().any(|(from, to)| (*from..*to).contains(&t)) {
            true => 0.5,
            false => 0.1,
        }
    });
    let profile = Profile::new(&trace, &SHUNT, &probe, 1.0).expect("the trace covers it");
    let watt = 0.5 * 4.5 - 0.1 * 4.9;
    let expected = [(1.0, 0.0), (1.4, 0.4), (1.9, 0.9), (1.5, 0.5), (1.0, 0.0)];
    for (run, (seconds, tail)) in profile.runs.iter().zip(expected) {
        assert!(
            (run.joule_above_idle - watt * seconds).abs() < 0.06,
            "{run:?}"
        );
        assert!((run.background_seconds - tail).abs() < 0.01, "{run:?}");
        assert_eq!(run.is_cut, run.pattern == "RW", "{run:?}");
    }
    let json = serde_json::to_string(&profile).expect("figures");
    let pauses = Pauses::parse(&json).expect("the analysis has pauses");
    let pause = |first, second| pauses.pause(first, second).as_secs_f64();
    assert_eq!(pause(Pattern::SR, None), 0.0);
    assert!((pause(Pattern::SW, None) - 0.99).abs() < 0.02, "{pauses:?}");
    let cut = pause(Pattern::SR, Some(Pattern::RW));
    assert!((cut - 1.0).abs() < 0.02, "twice as long as it was: {cut}");

    let text: String = profile.tables().iter().map(|table| table.text()).collect();
    // A hundred transfers of 10 ms each.
    let millijoule = figure(profile.runs[1].joule_above_idle * 10.0);
    for part in ["4096", "10,000", "small", "after 1 of 5 runs", &millijoule] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let at_once = [("order", "SW", 1, 1.0, 2.0), ("order", "SW", 2, 2.0, 3.0)];
    let at_once = Profile::new(&trace, &SHUNT, &recorded(&at_once), 1.0).expect("covered");
    let cut: Vec<bool> = at_once.runs.iter().map(|run| run.is_cut).collect();
    assert_eq!(cut, [true, false], "no pause, no knowledge");
    let late = Profile::new(&trace, &SHUNT, &probe, 5.0)
        .expect_err("outside")
        .to_string();
    assert!(late.contains("from 6.000 s to 16.500 s"), "{late}");
    assert!(RecordedProbe::parse("{}").is_err() && Pauses::parse("{}").is_err());
}

#[test]
fn the_pause_after_mixed_patterns_grows_if_it_was_too_short() {
    // Alone, random writes are followed by 0.2 s of work, reads by none; mixed, by work until the next run begins.
    let probe = recorded(&[
        ("granularity", "SR", 4096, 1.0, 2.0),
        ("granularity", "RW", 4096, 3.0, 4.0),
        ("mix", "SR/RW", 1, 5.0, 6.0),
        ("mix", "SR/RR", 1, 6.5, 7.5),
        ("mix", "SR/RW", 2, 9.0, 10.0),
    ]);
    let busy = [(1.0, 2.0), (3.0, 4.2), (5.0, 7.7), (9.0, 10.1)];
    let trace = trace(13.0, |t| {
        match busy.iter().any(|(from, to)| (*from..*to).contains(&t)) {
            true => 0.5,
            false => 0.1,
        }
    });
    let shunt = Shunt {
        idle_seconds: 0.9,
        ..SHUNT
    };
    let profile = Profile::new(&trace, &shunt, &probe, 0.0).expect("the trace covers it");
    let cut: Vec<bool> = profile.runs.iter().map(|run| run.is_cut).collect();
    assert_eq!(cut, [false, false, true, false, false]);
    let pause = |first, second| profile.pauses.pause(first, second).as_secs_f64();
    let mixed = pause(Pattern::SR, Some(Pattern::RW));
    assert!(
        (mixed - 1.0).abs() < 0.02,
        "twice as long as it was: {mixed}"
    );
    assert_eq!(pause(Pattern::RW, None), mixed);
    let read = pause(Pattern::SR, None).max(pause(Pattern::RR, None));
    assert!((read - 0.22).abs() < 0.02, "of their own mix: {read}");
}

#[test]
fn the_last_run_is_cut_if_the_trace_ends_in_its_work_or_too_soon_to_tell() {
    let last = |seconds: f64| {
        let trace = trace(seconds, |t| if (2.0..4.0).contains(&t) { 0.5 } else { 0.1 });
        let probe = recorded(&[("order", "SW", 1, 2.0, 3.0)]);
        let profile = Profile::new(&trace, &SHUNT, &probe, 0.0).expect("the trace covers it");
        (profile.runs[0].background_seconds, profile.runs[0].is_cut)
    };
    let (seconds, is_cut) = last(3.5);
    assert!(is_cut && (seconds - 0.5).abs() < 0.01, "{seconds}");
    assert!(last(3.004).1, "too soon to tell");
    let (seconds, is_cut) = last(5.0);
    assert!(!is_cut && (seconds - 1.0).abs() < 0.01, "{seconds}");
}

#[test]
fn regular_work_of_an_idle_device_is_a_part_of_its_idle_state() {
    let steady = trace(3.0, |_| 0.1).idle(&SHUNT);
    assert!((steady.mean_watt - 0.5).abs() < 0.02, "{steady:?}");
    assert_eq!(steady.work_share, 0.0);
    let regular = trace(3.0, |t| {
        if (t * 1e3) as u32 % 100 < 10 {
            0.4
        } else {
            0.1
        }
    });
    let regular = regular.idle(&SHUNT);
    assert!((regular.work_share - 0.1).abs() < 0.01, "{regular:?}");
    assert!((regular.watt - steady.watt).abs() < 0.01, "{regular:?}");
    assert!(regular.mean_watt > steady.mean_watt + 0.1, "{regular:?}");
    let text = idle_table(&[("ours".to_owned(), regular)]).text();
    assert!(
        text.contains("ours, measured") && text.contains("Memoright"),
        "{text}"
    );
}

#[test]
fn background_work_is_put_in_its_category() {
    assert_eq!(background(&[(4.0, 0.0), (8.0, 0.01)]), Background::None);
    assert_eq!(
        background(&[(4.0, 0.3), (8.0, 0.25), (16.0, 0.31)]),
        Background::Small
    );
    assert_eq!(
        background(&[(4.0, 3.0), (8.0, 2.8), (16.0, 3.1)]),
        Background::Extended
    );
    let grows = [(16.0, 1.7), (4.0, 0.4), (8.0, 0.9)];
    assert_eq!(background(&grows), Background::GrowsWithParameter);
    assert_eq!(background(&[(1.0, 0.5)]), Background::Small);
}

#[test]
fn bad_traces_are_refused_with_their_place() {
    let error = |text: &str| Trace::parse(text).expect_err(text).to_string();
    assert_eq!(
        error("t,v\n0.0,1\n0.1,x\n"),
        "line 3, column 5: \"x\" is no voltage"
    );
    assert_eq!(
        error("0.0,1\nnow,1\n"),
        "line 2, column 1: \"now\" is no time in seconds"
    );
    assert_eq!(
        error("0.5\n"),
        "line 1, column 4: two columns expected: seconds, volts"
    );
    assert_eq!(
        error("1,1\n1,1\n"),
        "line 2, column 1: time 1 is not after the line before"
    );
    assert_eq!(error("0,inf\n"), "line 1, column 3: \"inf\" is no voltage");
    assert!(error("# nothing\n").contains("too few"));
    assert!(error("").starts_with("line 1, column 1"));
}

#[test]
fn power_counters_are_found_read_and_wrap() {
    let sys = tempfile::tempdir().expect("a temporary folder");
    assert!(PowerCounters::find(sys.path()).read().is_empty());
    let zone = sys.path().join("class/powercap/intel-rapl:0");
    fs::create_dir_all(&zone).expect("created");
    let put = |name: &str, text: &str| fs::write(zone.join(name), text).expect("written");
    put("name", "package-0\n");
    put("energy_uj", "9000000\n");
    put("max_energy_range_uj", "10000000\n");
    let counters = PowerCounters::find(sys.path());
    put("energy_uj", "9500000\n");
    assert_eq!(counters.read()[0].joule, 0.5);
    put("energy_uj", "500000\n");
    let reading = &counters.read()[0];
    assert_eq!((reading.name.as_str(), reading.joule), ("package-0", 1.5));
}
