//! Builds the page and makes a table of its files for `page.rs`.
//!
//! The sources are copied to the build folder and built there, so that nothing is written beside
//! them and builds of other targets do not meet. Packages are installed if the lock file is not
//! the one they were installed by.

use std::error::Error;
use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs, io};

/// What the page is built from, within `page/`.
const SOURCES: &[&str] = &[
    "index.html",
    "package.json",
    "package-lock.json",
    "src",
    "tsconfig.json",
    "vite.config.ts",
];
const LOCK: &str = "package-lock.json";
/// The lock file that the packages of a folder were installed by, within it.
const INSTALLED: &str = "node_modules/.installed-by";

fn main() -> ExitCode {
    match page() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the page of the server cannot be built: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Builds the page, and `assets.rs` for it.
fn page() -> Result<(), Box<dyn Error>> {
    let sources = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("page");
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let work = out.join("page");
    println!("cargo::rerun-if-changed=build.rs");
    for name in SOURCES {
        let source = sources.join(name);
        println!("cargo::rerun-if-changed={}", source.display());
        replace(&source, &work.join(name))?;
    }
    install(&work)?;
    build(&work)?;
    let table = table(&work.join("dist"))?;
    fs::write(out.join("assets.rs"), table)?;
    Ok(())
}

/// Makes a copy of a file or folder, without what an earlier copy had besides.
fn replace(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        fs::create_dir_all(to.parent().expect("within the build folder"))?;
        return fs::copy(from, to).map(|_| ());
    }
    if to.exists() {
        fs::remove_dir_all(to)?;
    }
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        replace(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn install(work: &Path) -> Result<(), Box<dyn Error>> {
    let lock = fs::read(work.join(LOCK))?;
    if fs::read(work.join(INSTALLED)).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    // What only checks and tests need is left out, and no package runs scripts.
    let mut npm = Command::new("npm");
    npm.args(["ci", "--omit=dev", "--ignore-scripts", "--prefer-offline"]);
    npm.args(["--no-audit", "--no-fund", "--loglevel=error"]);
    run(npm.current_dir(work))?;
    fs::write(work.join(INSTALLED), lock)?;
    Ok(())
}

fn build(work: &Path) -> Result<(), Box<dyn Error>> {
    let mut vite = Command::new("node");
    vite.args(["node_modules/vite/bin/vite.js", "build", "--emptyOutDir"]);
    vite.args(["--logLevel=warn"]);
    run(vite.current_dir(work))
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let output = command.output().map_err(|error| {
        let program = command.get_program().to_string_lossy();
        format!(
            "{program} cannot be started ({error}); install Node.js 20.19 or newer with npm \
             (`apt-get install nodejs npm`, or scripts/setup)"
        )
    })?;
    if output.status.success() {
        return Ok(());
    }
    let told = [output.stdout, output.stderr].concat();
    let told = String::from_utf8_lossy(&told).into_owned();
    Err(format!("{command:?} failed with {}:\n{told}", output.status).into())
}

/// The Rust source of an array of all files, each with its compressed twin.
fn table(dist: &Path) -> Result<String, Box<dyn Error>> {
    let mut table = String::from("&[\n");
    let mut folders = vec![dist.to_owned()];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            match path.is_dir() {
                true => folders.push(path),
                false => files.push(path),
            }
        }
    }
    files.sort();
    for file in files.iter().filter(|file| !is_compressed(file)) {
        let name = file.strip_prefix(dist)?.to_str().ok_or("a name in UTF-8")?;
        let mut hasher = DefaultHasher::new();
        hasher.write(&fs::read(file)?);
        writeln!(
            table,
            "    Asset {{ path: {name:?}, media_type: {:?}, hash: \"{:016x}\",\n        \
             bytes: include_bytes!({file:?}),\n        gzip: include_bytes!({:?}) }},",
            media_type(file)?,
            hasher.finish(),
            dist.join(format!("{name}.gz")),
        )?;
    }
    table.push_str("]\n");
    Ok(table)
}

fn is_compressed(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "gz")
}

fn media_type(file: &Path) -> Result<&'static str, Box<dyn Error>> {
    match file.extension().and_then(|extension| extension.to_str()) {
        Some("css") => Ok("text/css; charset=utf-8"),
        Some("html") => Ok("text/html; charset=utf-8"),
        Some("js") => Ok("text/javascript; charset=utf-8"),
        Some("svg") => Ok("image/svg+xml"),
        _ => Err(format!("{}: what media type is that?", file.display()).into()),
    }
}
