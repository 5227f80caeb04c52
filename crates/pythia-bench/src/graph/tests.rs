//! The simulation compared with computed values, and a small run of everything.

use super::*;

fn setting(clients: usize, processing_us: u64) -> Parameters {
    Parameters {
        page_bytes: 4096,
        clients,
        path_length: 10,
        processing_us,
    }
}

#[test]
fn a_simulated_device_obeys_the_laws_of_queues() {
    for (device, model) in [
        (Device::ModelledFlash, DeviceModel::FLASH),
        (Device::ModelledPcm, DeviceModel::PCM),
    ] {
        for clients in [1, 2, 7, 16, 64, 192] {
            // Without processing all of them are always in flight.
            let found = simulate::run(device, &model, setting(clients, 0), 20_000);
            let expected = model.read_us(4096, clients as u32);
            assert!(
                (found.read.mean_us / expected - 1.0).abs() < 0.01,
                "{found:?}"
            );
            assert!((found.query_us / (10.0 * expected) - 1.0).abs() < 0.01);
            // Little's law, and a client's total time.
            let found = simulate::run(device, &model, setting(clients, 100), 20_000);
            let rate = found.bandwidth_bytes / 4096.0 / 1e6;
            let round = found.read.mean_us + 100.0;
            assert!(
                (rate * round / clients as f64 - 1.0).abs() < 0.02,
                "{found:?}"
            );
        }
    }
}

#[test]
fn processing_makes_the_faster_device_matter_less() {
    let speed_up = |clients, processing| {
        let run = |device, model| {
            simulate::run(device, &model, setting(clients, processing), 20_000).query_us
        };
        run(Device::ModelledFlash, DeviceModel::FLASH) / run(Device::ModelledPcm, DeviceModel::PCM)
    };
    let greatest = |processing| {
        let all = Options::default().clients;
        all.into_iter()
            .map(|clients| speed_up(clients, processing))
            .fold(0.0, f64::max)
    };
    assert!((greatest(0) - 2.5).abs() < 0.05);
    assert!(greatest(50) < greatest(0) && greatest(100) < greatest(50));
    assert!(greatest(100) > 1.6, "the paper: 2.0; {}", greatest(100));
}

#[test]
fn nodes_have_their_edges_within_the_graph() {
    let mut page = vec![0; 4096];
    let mut random = SplitMix(1);
    let mut degrees = Vec::new();
    for number in 0..500 {
        write_node(&mut page, number, 1000, 7);
        degrees.push(page[0]);
        for _ in 0..10 {
            assert!(random_edge(&page, 1000, &mut random) < 1000);
        }
    }
    assert_eq!(
        (degrees.iter().min(), degrees.iter().max()),
        (Some(&3), Some(&30))
    );
    // Invalid data from the device stays in range.
    page.fill(255);
    assert!(random_edge(&page, 1000, &mut random) < 1000);
}

#[test]
fn a_small_run_measures_and_draws_every_figure() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let options = Options {
        page_bytes: vec![4096, 8192],
        clients: vec![1, 4, 16],
        path_lengths: vec![2, 5],
        processing_us: vec![0, 100],
        graph_bytes: 16 << 20,
        measured: Some(Duration::from_millis(5)),
        ..Options::default()
    };
    let report = run(folder.path(), &options, |_| {}).expect("room");
    // Two page sizes, two paths and two processing times, varied one at a time: 4.
    assert_eq!(report.measurements.len(), 3 * 3 * 4);
    for measurement in &report.measurements {
        assert!(measurement.read.mean_us > 0.0 && measurement.query_us > 0.0);
        let setting = measurement.setting;
        let least = setting.path_length as f64 * setting.processing_us as f64;
        assert!(measurement.query_us >= least, "{measurement:?}");
    }
    assert_eq!(report.html().matches("<svg").count(), 2 + 2 + 2 + 2);
    let text = report.text();
    assert!(text.contains("this device, measured") && text.contains("greatest speed-up"));
    let all = Options {
        all: true,
        ..options
    };
    assert_eq!(all.settings().len(), 2 * 3 * 2 * 2);
}
