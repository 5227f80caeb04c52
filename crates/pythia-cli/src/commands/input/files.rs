//! The files that the arguments of a load name.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pythia_rdf::format::detect;

use crate::exit::UsageError;

/// Returns the files that arguments name, in their order: files, all RDF files in and below folders, and the files that
/// match patterns, each sorted by name. `-` stays. With `any_name`, all files of folders are RDF.
pub(super) fn named(arguments: &[PathBuf], any_name: bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for argument in arguments {
        if argument.as_os_str() == "-" {
            files.push(argument.clone());
        } else if argument.is_dir() {
            files.extend(of_folder(argument, any_name)?);
        } else if !argument.exists() {
            files.extend(of_missing(argument, any_name)?);
        } else {
            files.push(argument.clone());
        }
    }
    Ok(files)
}

/// Returns the RDF files in and below a folder.
fn of_folder(folder: &Path, any_name: bool) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    collect(folder, any_name, &mut files)?;
    if files.is_empty() {
        let (folder, hint) = (folder.display(), "; with --format all its files are loaded");
        let hint = if any_name { "" } else { hint };
        return Err(UsageError(format!("the folder {folder} has no RDF files{hint}")).into());
    }
    files.sort();
    Ok(files)
}

fn collect(folder: &Path, any_name: bool, files: &mut Vec<PathBuf>) -> Result<()> {
    let name = folder.display();
    for entry in fs::read_dir(folder).with_context(|| format!("read the folder {name}"))? {
        let entry = entry.with_context(|| format!("read the folder {name}"))?;
        let path = entry.path();
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        // A link to a folder may lead back to this one.
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            if !is_hidden {
                collect(&path, any_name, files)?;
            }
        } else if !is_hidden && path.is_file() && (any_name || detect(&path).0.is_some()) {
            files.push(path);
        }
    }
    Ok(())
}

/// Returns the files that match an argument that is no file itself; the argument, if it is no pattern.
fn of_missing(argument: &Path, any_name: bool) -> Result<Vec<PathBuf>> {
    let Some(text) = argument.to_str() else {
        return Ok(vec![argument.to_owned()]);
    };
    if let Some((scheme @ ("http" | "https" | "ftp" | "file" | "s3"), rest)) =
        text.split_once("://")
    {
        return Err(UsageError(url_hint(text, scheme, rest)).into());
    }
    if !text.contains(['*', '?', '[']) {
        return Ok(vec![argument.to_owned()]);
    }
    // A pattern matches hidden files only if it names the dot, as in shells.
    let options = glob::MatchOptions {
        require_literal_leading_dot: true,
        ..glob::MatchOptions::default()
    };
    let paths = glob::glob_with(text, options)
        .map_err(|error| UsageError(format!("{text} is neither a file nor a pattern: {error}")))?;
    let mut files = Vec::new();
    for path in paths {
        let path = path.with_context(|| format!("read the files of {text}"))?;
        if path.is_dir() {
            files.extend(of_folder(&path, any_name)?);
        } else {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(UsageError(format!("no file matches {text}")).into());
    }
    Ok(files)
}

/// Returns how to load what is at a URL.
fn url_hint(url: &str, scheme: &str, rest: &str) -> String {
    match scheme {
        "file" => format!(
            "{url} is a URL; give the path /{}",
            rest.trim_start_matches('/')
        ),
        _ => format!(
            "{url} is a URL, and only files are loaded; download it first, or pipe it: \
             curl -fsSL '{url}' | pythia load -l STORE --format FORMAT -"
        ),
    }
}
