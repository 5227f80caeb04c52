//! The figures of LOD2 D2.1.4 (§1.3 and §1.4): Virtuoso 7 on 8 machines with 256 threads and 2 TB of memory.

use super::report::{Report, Test};
use crate::table::{Table, figure};

/// Figures of one number of clients.
struct Printed {
    clients: usize,
    /// Query mixes per hour with 50 and with 150 billion triples, if the report has them.
    mixes_per_hour: Option<[f64; 2]>,
    /// Queries per hour times the scale factor.
    throughput: [f64; 2],
    /// Of each template, the average query execution time in seconds and its share of the time in percent, with 50 billion
    /// triples, then with 150.
    templates: &'static [(&'static str, [f64; 4])],
}

const EXPLORE: [Printed; 2] = [
    Printed {
        clients: 1,
        mixes_per_hour: Some([4253.157, 2090.574]),
        throughput: [4_832_691.0, 7_126_307.0],
        templates: &[
            ("Q1", [0.066, 0.7, 0.113, 0.6]),
            ("Q2", [0.045, 3.0, 0.066, 2.1]),
            ("Q3", [0.112, 1.2, 0.111, 0.6]),
            ("Q4", [0.156, 1.7, 0.308, 1.6]),
            ("Q5", [3.748, 80.8, 8.052, 85.2]),
            ("Q7", [0.155, 6.7, 0.258, 5.5]),
            ("Q8", [0.100, 2.1, 0.188, 2.0]),
            ("Q9", [0.011, 0.5, 0.011, 0.2]),
            ("Q10", [0.147, 3.2, 0.201, 2.1]),
            ("Q11", [0.005, 0.1, 0.006, 0.0]),
            ("Q12", [0.014, 0.1, 0.013, 0.1]),
        ],
    },
    Printed {
        clients: 4,
        mixes_per_hour: Some([2837.285, 1471.032]),
        throughput: [11_820_943.0, 18_386_227.0],
        templates: &[
            ("Q1", [0.415, 3.1, 0.093, 0.4]),
            ("Q2", [0.041, 1.8, 0.086, 2.3]),
            ("Q3", [0.091, 0.7, 0.116, 0.5]),
            ("Q4", [0.102, 0.8, 0.230, 1.0]),
            ("Q5", [6.190, 91.4, 9.655, 85.4]),
            ("Q7", [0.043, 1.3, 0.360, 6.4]),
            ("Q8", [0.021, 0.3, 0.186, 1.6]),
            ("Q9", [0.010, 0.3, 0.011, 0.2]),
            ("Q10", [0.020, 0.3, 0.242, 2.1]),
            ("Q11", [0.004, 0.0, 0.006, 0.0]),
            ("Q12", [0.019, 0.1, 0.010, 0.0]),
        ],
    },
];

const BUSINESS_INTELLIGENCE: [Printed; 2] = [
    Printed {
        clients: 1,
        mixes_per_hour: None,
        throughput: [12_052.0, 10_671.0],
        templates: &[
            ("BI1", [622.80, 16.7, 914.39, 7.2]),
            ("BI2", [189.85, 5.1, 196.01, 1.6]),
            ("BI3", [337.64, 9.0, 942.97, 7.5]),
            ("BI4", [18.13, 2.4, 183.00, 7.2]),
            ("BI5", [187.60, 25.1, 830.26, 32.8]),
            ("BI6", [47.64, 1.3, 24.45, 0.2]),
            ("BI7", [36.96, 5.9, 58.63, 2.8]),
            ("BI8", [256.93, 34.4, 1030.73, 40.7]),
        ],
    },
    Printed {
        clients: 4,
        mixes_per_hour: None,
        throughput: [19_851.0, 18_003.0],
        templates: &[
            ("BI1", [1085.82, 12.8, 1591.37, 5.6]),
            ("BI2", [30.18, 0.4, 507.02, 1.8]),
            ("BI3", [2574.65, 30.3, 8447.73, 30.0]),
            ("BI4", [6.13, 0.4, 125.71, 2.2]),
            ("BI5", [319.75, 18.8, 1342.08, 23.8]),
            ("BI6", [34.67, 0.4, 191.42, 0.7]),
            ("BI7", [39.37, 2.8, 94.82, 2.0]),
            ("BI8", [583.20, 34.3, 1920.03, 34.0]),
        ],
    },
];

/// Scale factor and queries of a mix of the report's Explore runs with 50 and with 150 billion triples.
const SCALE_FACTORS: [f64; 2] = [500.0, 1500.0];
const MIX_QUERIES: f64 = 25.0;

/// Returns a table of the printed figures beside those of the first system, for the numbers of clients that both have. The
/// report has neither updates nor BI without drill-down.
pub(super) fn tables(report: &Report) -> Vec<Table> {
    let printed = match report.settings.use_case {
        "bi" if report.settings.drill_down => &BUSINESS_INTELLIGENCE,
        "explore" => &EXPLORE,
        _ => return Vec::new(),
    };
    let beside = |test: &Test| {
        let printed = printed.iter().find(|one| one.clients == test.clients)?;
        Some(table(report, test, printed))
    };
    report.tests.iter().filter_map(beside).collect()
}

fn table(report: &Report, test: &Test, printed: &Printed) -> Table {
    let ours = format!("{}, measured", report.systems[0].name);
    let header = [
        "figure",
        "report, 50 G triples",
        "share",
        "report, 150 G",
        "share",
        ours.as_str(),
        "share",
        "ratio to 50 G",
    ];
    let title = match test.clients {
        1 => "Beside LOD2 D2.1.4, 1 client".to_owned(),
        clients => format!("Beside LOD2 D2.1.4, {clients} clients"),
    };
    let mut table = Table::new(title, &header);
    let system = &test.systems[0];
    for (template, [aqet, share, larger, larger_share]) in printed.templates {
        let own = system
            .templates
            .iter()
            .find(|one| one.template == *template);
        let of_own = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
        table.row(vec![
            format!("{template} AQET ms"),
            figure(aqet * 1e3),
            percent(*share),
            figure(larger * 1e3),
            percent(*larger_share),
            of_own(own.map(|own| figure(own.latency.mean_us / 1e3))),
            of_own(own.map(|own| percent(own.time_share * 1e2))),
            of_own(own.map(|own| figure(aqet * 1e6 / own.latency.mean_us))),
        ]);
    }
    table.note(format!(
        "The report's figures are of Virtuoso 7 on 8 machines with 256 threads and 2 TB of memory, ours of this machine. It had {} times \
         our triples: the ratio, printed time / ours, compares machines and sizes, too. Above 1 is better for us.",
        figure(50e9 / report.settings.triples as f64)
    ));
    match printed.mixes_per_hour {
        Some(mixes) => rates(&mut table, printed, mixes, system.mixes_per_hour_median),
        None => table.note(
            "The report's BI mix has 25 queries, BI4, BI5 and BI8 five times and BI7 six times, as its shares and rates show. Ours has \
             each of the 8 once, so that shares and rates are not comparable.",
        ),
    }
    table
}

/// Adds the rates of Explore.
fn rates(table: &mut Table, printed: &Printed, mixes: [f64; 2], own: f64) {
    let of_throughput =
        [0, 1].map(|size| printed.throughput[size] / SCALE_FACTORS[size] / MIX_QUERIES);
    let mut row = |what: &str, [report, larger]: [f64; 2], ratio: String| {
        let none = String::new;
        let [report, larger, own] = [report, larger, own].map(figure);
        table.row(vec![
            what.to_owned(),
            report,
            none(),
            larger,
            none(),
            own,
            none(),
            ratio,
        ]);
    };
    row("mixes/h", mixes, String::new());
    let ratio = figure(own / of_throughput[0]);
    row("mixes/h, of the throughput", of_throughput, ratio);
    table.note(format!(
        "The report's mixes/h are {} times those of its throughput (queries/h times the scale factor, {MIX_QUERIES} queries a mix), to \
         which its run times agree.",
        figure(mixes[0] / of_throughput[0])
    ));
}

fn percent(share: f64) -> String {
    format!("{share:.1} %")
}
