use std::collections::BTreeMap;
use std::io::Write;
use std::time::Duration;

use super::*;

fn source(text: &str, variables: &[(&str, &str)]) -> (tempfile::NamedTempFile, ConfigSource) {
    let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
    file.write_all(text.as_bytes()).expect("written");
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let source = ConfigSource {
        file: Some(file.path().to_owned()),
        variables: variables.iter().map(own).collect::<BTreeMap<_, _>>(),
        overlay: Arc::new(|_| {}),
        read_stamp: Arc::default(),
    };
    (file, source)
}

fn refusal(text: &str, variables: &[(&str, &str)]) -> String {
    let (_file, source) = source(text, variables);
    source.read().expect_err(text).to_string()
}

const WHOLE: &str = r#"
bind = ["127.0.0.1:7979", "[::1]:7979"]

[datasets.yago]
path = "/srv/yago"
read_only = true
cache = "2G"
memory = 1000000

[datasets.mine]
path = "/srv/mine"
default = true
[datasets.mine.write]
maintenance_rate = "50M"
log_archive = "/srv/archive"
log_spare = true

[limits]
timeout = "5s"
query_memory = "256M"
rows = 10
header_time = 3

[log]
format = "json"
access = true
[log.targets]
"pythia_server::auth" = "debug"

[tracing]
endpoint = "http://127.0.0.1:4318/v1/traces"
sample = 0.5
"#;

#[test]
fn a_file_is_read_and_what_it_leaves_out_is_default() {
    let (_file, source) = source(WHOLE, &[]);
    let config = source.read().expect("sound");
    assert_eq!(config.bind.len(), 2);
    let names: Vec<&str> = config.datasets.iter().map(|d| d.name.as_str()).collect();
    assert_eq!(names, ["mine", "yago"]);
    assert_eq!(config.datasets[1].cache_bytes, 2 << 30);
    assert_eq!(config.datasets[1].memory_bytes, 1_000_000);
    let write = &config.datasets[0].write;
    assert_eq!(write.maintenance_bytes_per_second, Some(50 << 20));
    assert!(write.log_spare);
    assert_eq!(config.limits.timeout, Duration::from_secs(5));
    assert_eq!(config.limits.header_time, Duration::from_secs(3));
    assert_eq!(config.limits.rows, Some(10));
    assert_eq!(config.limits.queue_time, Duration::from_secs(5));
    assert!(config.log.access && config.operate.watch);
}

#[test]
fn the_environment_overrides_the_file_and_flags_override_both() {
    let variables = [
        ("PYTHIA_SERVE_BIND", "127.0.0.1:1, 127.0.0.1:2"),
        ("PYTHIA_SERVE_LIMITS__TIMEOUT", "7s"),
        ("PYTHIA_SERVE_LIMITS__ROWS", "99"),
        ("PYTHIA_SERVE_DATASETS__MINE__CACHE", "1M"),
        ("PYTHIA_SERVE_DATASETS__NEW__PATH", "/srv/new"),
        ("PYTHIA_SERVE_CORS_ORIGINS", "[\"https://a.example\"]"),
    ];
    let (_file, mut source) = source(WHOLE, &variables);
    source.overlay = Arc::new(|config| config.limits.rows = Some(5));
    let config = source.read().expect("sound");
    assert_eq!(config.bind.len(), 2);
    assert_eq!(config.bind[1].port(), 2);
    assert_eq!(config.limits.timeout, Duration::from_secs(7));
    assert_eq!(config.limits.rows, Some(5));
    assert_eq!(config.datasets[0].cache_bytes, 1 << 20);
    assert_eq!(config.datasets[1].name, "new");
    assert_eq!(config.cors_origins, ["https://a.example"]);
}

#[test]
fn errors_name_file_line_and_what_was_probably_meant() {
    let message = refusal("[limits]\ntimeuot = \"5s\"\n", &[]);
    assert!(message.contains(":2:1: "), "{message}");
    assert!(message.ends_with("did you mean timeout?"), "{message}");
    let message = refusal("[limits]\ntimeout = \"soon\"\n", &[]);
    assert!(message.contains(":2:11: write a time"), "{message}");
    let message = refusal("[datasets.a]\npath = \"/a\"\ncache = true\n", &[]);
    assert!(message.contains(":3:9: "), "{message}");
    assert!(message.contains("a size, for example"), "{message}");
    let message = refusal("[log]\nformat = \"xml\"\n", &[]);
    assert!(
        message.contains(":2:10: ") && message.contains("json"),
        "{message}"
    );
    let message = refusal("bind = \"nowhere\"\n", &[]);
    assert!(message.contains("127.0.0.1:7878"), "{message}");
    let message = refusal("bind = \"127.0.0.1:1\n", &[]);
    assert!(message.contains(":1:"), "{message}");
    let message = refusal("[zoo]\n", &[]);
    assert!(
        message.contains("there is no setting zoo here, but bind"),
        "{message}"
    );
}

#[test]
fn a_wrong_variable_is_named() {
    let wrong = [("PYTHIA_SERVE_LIMITS__TIMEOUT", "soon")];
    let fine = ("PYTHIA_SERVE_BIND", "127.0.0.1:1");
    let message = refusal(WHOLE, &[wrong[0], fine]);
    let start = "environment variable PYTHIA_SERVE_LIMITS__TIMEOUT: write a time";
    assert!(message.starts_with(start), "{message}");
    let message = refusal("", &[("PYTHIA_SERVE_LIMITS__TIMEUOT", "1s"), fine]);
    assert!(message.ends_with("did you mean timeout?"), "{message}");
    let message = refusal("", &[("PYTHIA_SERVE_BIND__X", "1s")]);
    assert!(message.contains("PYTHIA_SERVE_BIND__X"), "{message}");
}

#[test]
fn settings_that_make_no_sense_are_refused() {
    let cases = [
        ("[datasets.a]\n", "datasets.a has no path"),
        (
            "[datasets.query]\npath = \"/a\"\n",
            "/query is a path of the server",
        ),
        ("[datasets.\"a b\"]\npath = \"/a\"\n", "letters, digits"),
        (
            "[datasets.a]\npath = \"/a\"\n[datasets.b]\npath = \"/a\"\n",
            "the same path",
        ),
        (
            "[datasets.a]\npath = \"/a\"\ndefault = true\n[datasets.b]\npath = \"/b\"\ndefault = true\n",
            "a and b are both",
        ),
        ("[limits]\nrunning = 0\n", "limits.running is 0"),
        (
            "[limits]\nreceive_memory = \"1M\"\n",
            "limits.receive_memory",
        ),
        ("[tracing]\nsample = 2.0\n", "between 0.0 and 1.0"),
        ("[tracing]\nendpoint = \"collector\"\n", "must be a URL"),
        ("bind = []\n", "no address"),
    ];
    for (text, expected) in cases {
        let message = refusal(text, &[]);
        assert!(message.contains(expected), "{text}: {message}");
    }
}

#[test]
fn a_printed_configuration_reads_as_itself() {
    let (_file, read) = source(WHOLE, &[]);
    let printed = read.read().expect("sound").to_toml();
    let (_other, again) = source(&printed, &[]);
    let config = again
        .read()
        .unwrap_or_else(|error| panic!("{error}\n{printed}"));
    assert_eq!(config.to_toml(), printed);
    assert!(printed.contains("timeout = \"5s\""), "{printed}");
    assert!(
        printed.contains("\"pythia_server::auth\" = \"debug\""),
        "{printed}"
    );
}

#[test]
fn a_missing_file_is_named() {
    let source = ConfigSource {
        file: Some("/there/is/none.toml".into()),
        variables: BTreeMap::new(),
        overlay: Arc::new(|_| {}),
        read_stamp: Arc::default(),
    };
    let message = source.read().expect_err("none").to_string();
    assert!(message.contains("/there/is/none.toml"), "{message}");
}
