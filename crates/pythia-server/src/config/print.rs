//! Writes a configuration as TOML.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::Config;

/// Keys whose values are secret.
const SECRET: [&str; 4] = ["password_hash", "sha256", "secret", "headers"];

pub(super) fn to_toml(config: &Config) -> String {
    let value = serde_json::to_value(config).expect("a configuration has texts and numbers only");
    let Value::Object(map) = value else {
        unreachable!("it is a struct")
    };
    let mut out = String::new();
    write_table(&map, "", &mut out);
    out
}

/// Writes the values that are not tables, then the tables.
fn write_table(table: &Map<String, Value>, path: &str, out: &mut String) {
    for (key, value) in table {
        if !is_table(value) && !value.is_null() {
            let _ = writeln!(out, "{} = {}", quoted(key), inline(key, value));
        }
    }
    for (key, value) in table {
        let below = match path {
            "" => quoted(key),
            path => format!("{path}.{}", quoted(key)),
        };
        match value {
            Value::Object(inner) if is_table(value) => {
                if inner.values().any(|value| !is_table(value)) || inner.is_empty() {
                    let _ = writeln!(out, "\n[{below}]");
                }
                write_table(inner, &below, out);
            }
            Value::Array(items) if is_table(value) => {
                for item in items.iter().filter_map(Value::as_object) {
                    let _ = writeln!(out, "\n[[{below}]]");
                    write_table(item, &below, out);
                }
            }
            _ => {}
        }
    }
}

/// Returns whether a value is written as one or more tables.
fn is_table(value: &Value) -> bool {
    match value {
        Value::Object(_) => true,
        Value::Array(items) => !items.is_empty() && items.iter().all(Value::is_object),
        _ => false,
    }
}

/// Writes a value. JSON texts, numbers and lists of them are TOML too.
fn inline(key: &str, value: &Value) -> String {
    if SECRET.contains(&key) {
        return "\"(secret)\"".to_owned();
    }
    value.to_string()
}

fn quoted(key: &str) -> String {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    match !key.is_empty() && key.chars().all(bare) {
        true => key.to_owned(),
        false => Value::from(key).to_string(),
    }
}
